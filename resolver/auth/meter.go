// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

// assumedLife is how long a token is good whose server does not say for how long: see
// https://distribution.github.io/distribution/spec/auth/token/.
const assumedLife = time.Minute

// meter measures the answers of token servers, of which docker's authorizer does not say
// how much it keeps nor for how long.
type meter struct {
	mu      sync.Mutex
	size    int       // of the last answer with a token, in bytes
	expires time.Time // when that token does, zero = its server has not said that
	assumed time.Time // then, when it is assumed to
}

// last returns what the last answer with a token was.
func (m *meter) last() (size int, expires time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size, m.expires
}

// assumes returns when the last token is assumed to expire, zero where that is known.
func (m *meter) assumes() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assumed
}

// client returns a client whose answers are measured.
func (m *meter) client(c *http.Client) *http.Client {
	measured := *c
	measured.Transport = &measuring{next: c.Transport, meter: m}
	return &measured
}

type measuring struct {
	next  http.RoundTripper
	meter *meter
}

// RoundTrip implements http.RoundTripper. The transport below bounds the answer. A token was issued since the request was begun,
// and may be over that long after its answer said.
func (r *measuring) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := r.next.RoundTrip(req)
	if err != nil || resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	var document struct {
		Seconds int `json:"expires_in"`
	}
	_ = json.Unmarshal(data, &document) // docker's authorizer reports what is wrong with it
	r.meter.mu.Lock()
	defer r.meter.mu.Unlock()
	r.meter.size, r.meter.expires, r.meter.assumed = len(data), time.Time{}, began.Add(assumedLife)
	if document.Seconds > 0 {
		r.meter.expires = began.Add(time.Duration(min(document.Seconds, math.MaxInt32)) * time.Second)
		r.meter.assumed = time.Time{}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}
