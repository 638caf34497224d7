// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// keepHome ends requests for tokens that have credentials and are redirected away from
// the token server, or to where it has no TLS. net/http would send the body on to
// anybody, and the header to all ports of the machine, in clear too. A refusal by whom
// it redirects to, or that this one leads back to, is nobody's who may refuse a caller.
type keepHome struct {
	next     http.RoundTripper
	redactor *redact.Redactor
}

var errAway = errors.New("the token server redirects to here, and credentials are not sent on")

// RoundTrip implements http.RoundTripper.
func (k *keepHome) RoundTrip(req *http.Request) (*http.Response, error) {
	first := fault.First(req)
	if !fault.Strayed(req) {
		return k.next.RoundTrip(req)
	}
	if first.Header.Get("Authorization") != "" || first.Method == http.MethodPost {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, &fault.Fault{Class: failure.Invalid, Err: k.redactor.Request(req, errAway)}
	}
	resp, err := k.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if class := fault.TokenStatusClass(resp.StatusCode); resp.StatusCode >= 400 && class.Refuses() {
		text := redact.WithReason(fault.StatusText(resp.StatusCode), k.redactor.ReadReason(resp))
		_ = resp.Body.Close()
		return nil, &fault.Fault{Class: class, Err: k.redactor.Request(req, errors.New(text)), Elsewhere: true}
	}
	return resp, nil
}
