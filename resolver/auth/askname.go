// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// asksName reports whether a request, or that from which it was redirected, has no token so that the host names its token server.
func (a *Authorizer) asksName(req *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.presumed.asks != nil && fault.First(req).Header.Get("Authorization") == ""
}

// askName makes such a request. What the host refuses to who shows no token, or wants in a way that cannot be met, is about nobody who
// shows one: the 400 before it stands. A limit or a trouble is the check's own, and not told of the host.
func (d *doubting) askName(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	p.Health, p.Asked = nil, nil
	resp, err := d.next.RoundTrip(req.WithContext(purpose.With(req.Context(), p)))
	if err != nil {
		return nil, err
	}
	switch class := fault.StatusClass(resp.StatusCode); {
	case resp.StatusCode < 300 && req.Header.Get("Authorization") == "":
		d.authorizer.isOpen()
	case (class.Refuses() || class == failure.NotFound) && !d.authorizer.isNamed(req.Context(), resp):
		setStatus(resp, http.StatusBadRequest)
	}
	return resp, nil
}

// isOpen takes note that who shows no token is served.
func (a *Authorizer) isOpen() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.presumed.open = a.presumed.asks
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
