// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"io"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// whole reads the manifest that a check gets, within the bound of its size, before it
// hands the answer on. A body that stalls or breaks off is then judged as an answer that
// does not come: its class, another try, the host's health.
type whole struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The body of a success in a check is in memory,
// with at most one byte more than a manifest may have. One that says itself that it is
// too long is not read.
func (w *whole) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err != nil || req.Method != http.MethodGet || purpose.Of(req.Context()).Kind != purpose.Check {
		return resp, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.ContentLength > docker.MaxManifestSize {
		return resp, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, docker.MaxManifestSize+1))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}
