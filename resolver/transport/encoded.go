// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// EncodedOnce refuses answers whose content is encoded more than once (RFC 9110, section
// 8.4). containerd's fetcher decodes it as often as the header says, which has room for a
// million times, and takes tens of KiB for each. Next must not be nil.
type EncodedOnce struct{ Next http.RoundTripper }

var errEncoded = errors.New("its content is encoded more than once")

// RoundTrip implements http.RoundTripper.
func (e EncodedOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := e.Next.RoundTrip(req)
	if err != nil || resp.StatusCode > 299 { // the body of an error is read as it is
		return resp, err
	}
	codings := 0
	for coding := range strings.FieldsFuncSeq(resp.Header.Get("Content-Encoding"), betweenCodings) {
		if strings.EqualFold(coding, "identity") {
			continue
		}
		if codings++; codings > 1 {
			_ = resp.Body.Close()
			return nil, &fault.Fault{Class: failure.Invalid, Err: errEncoded}
		}
	}
	return resp, nil
}

// betweenCodings tells what containerd's fetcher takes for the end of a coding.
func betweenCodings(r rune) bool { return r == ' ' || r == '\t' || r == ',' }
