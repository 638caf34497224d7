// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"net/http/httptrace"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Elsewhere is for requests to where no host of a session is, such as the urls of layers. Errors, and
// redirects that are followed, have no part of a secret, as those of hosts have none, and what comes with
// either is waited for as what hosts send. Where there is no answer, the error is a fault; answers are
// not judged by their status. The Redactor knows by what the URL is signed that is asked first. Neither may be nil.
type Elsewhere struct {
	Next     http.RoundTripper
	Redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (e Elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var wire wire
	resp, err := e.Next.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, wire.trace())))
	if err != nil {
		clean := e.Redactor.Failed(req, err)
		if ctx.Err() != nil {
			return nil, clean // the pull has ended, and not the host failed
		}
		return nil, &fault.Fault{Class: fault.TransportClass(err, wire.silent()), Err: clean, Elsewhere: true}
	}
	resp.Request = req
	resp.Status = fault.StatusText(resp.StatusCode) // docker's errors have it as the host writes it
	if senseless(resp, e.Redactor, spellings(fault.First(req).URL)) {
		_ = resp.Body.Close()
		return nil, (&classify{redactor: e.Redactor}).nonsense(req, resp)
	}
	if resp.StatusCode >= 300 { // of a redirect, too, net/http reads some
		resp.Body = readError(resp.Body, errorTime(ctx, resp.StatusCode))
	}
	return resp, nil
}
