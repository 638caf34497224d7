// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
)

type verifiedKey struct{} // host:port

// WithVerified returns a request by t whose dial can hear that t verifies the certificate of the host, if it does: nobody
// else at that address is shown the request.
func WithVerified(req *http.Request, t *http.Transport) *http.Request {
	if req.URL.Scheme != "https" || t.TLSClientConfig != nil && t.TLSClientConfig.InsecureSkipVerify {
		return req
	}
	address := net.JoinHostPort(req.URL.Hostname(), cmp.Or(req.URL.Port(), "443"))
	return req.WithContext(context.WithValue(req.Context(), verifiedKey{}, address))
}

// Verified reports whether a dial by ctx is to a host whose certificate is verified. A proxy is not: it may be shown a
// password before.
func Verified(ctx context.Context, address string) bool {
	verified, ok := ctx.Value(verifiedKey{}).(string)
	return ok && strings.EqualFold(verified, address)
}
