// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// asksName reports whether a request, or that from which it was redirected, has no token so that the host names its token server.
func (a *Authorizer) asksName(req *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.presumed.asks && fault.First(req).Header.Get("Authorization") == ""
}

// askName makes such a request. The answer counts where it names the token server, or where nobody needs a token. Whatever else comes
// of it, in half of the time that is left, is about nobody who shows a token, and is not told of the host: the 400 before it stands.
func (d *doubting) askName(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	wait := maxRenewalWait
	if left := p.TimeLeft(req.Context()); left > 0 {
		wait = min(wait, left/2)
	}
	p.Health, p.Asked, p.Once = nil, nil, true
	ctx, cancel := context.WithCancel(purpose.With(req.Context(), p))
	defer time.AfterFunc(wait, cancel).Stop() // the body is read on
	resp, err := d.next.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil:
		cancel()
		if req.Context().Err() != nil {
			return nil, err
		}
		resp = &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
		setStatus(resp, http.StatusBadRequest)
		return resp, nil
	case resp.StatusCode >= 400 && !d.authorizer.isNamed(req.Context(), resp):
		setStatus(resp, http.StatusBadRequest)
	}
	resp.Body = &ending{resp.Body, cancel}
	return resp, nil
}

// ending is a body with which a context ends.
type ending struct {
	io.ReadCloser
	end func()
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

func setStatus(resp *http.Response, status int) {
	resp.StatusCode, resp.Status = status, fault.StatusText(status)
}

// isNamed reports whether the host itself says in an answer what it wants, and that can be met.
func (a *Authorizer) isNamed(ctx context.Context, resp *http.Response) bool {
	t := a.shared.tokensOf(resp.Request.URL.Host)
	return resp.StatusCode == http.StatusUnauthorized && t != nil && fault.Own(resp.Request) &&
		unfit(resp, a.options.Redactor) == nil && meet(ctx, t.renew(), resp) == nil
}
