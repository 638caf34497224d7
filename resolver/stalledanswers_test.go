// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// stalling is the body of an answer that begins, and does not go on.
type stalling struct {
	io.Reader
	req *http.Request
}

func (s stalling) Read(p []byte) (int, error) {
	if n, _ := s.Reader.Read(p); n > 0 {
		return n, nil
	}
	<-s.req.Context().Done()
	return 0, s.req.Context().Err()
}

func (stalling) Close() error { return nil }

// stall has answers begin alone.
func stall(code int, header http.Header, begins string) scripted {
	return func(req *http.Request) (*http.Response, error) {
		resp := answer(req, code, header, "")
		resp.Body, resp.ContentLength = stalling{strings.NewReader(begins), req}, -1
		return resp, nil
	}
}

// A host that begins what it sends, and does not end it, costs one check its time, as one does that
// says nothing: a token server by its tokens, a mirror by its redirects.
func TestAnswersThatStallCostOneCheck(t *testing.T) {
	const tokens = "auth.test"
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x",scope="repository:team/app:pull"`)
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, wants)
		n.set(tokens, stall(http.StatusOK, nil, `{"token":`))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		for i := range 3 {
			start := time.Now()
			_, err := once(t.Context(), r, Query{Fallback: failure.SetOf(failure.Unreachable)}, 4*time.Second)
			wantClass(t, err, failure.Unreachable)
			if waited := time.Since(start); (waited > time.Second) != (i == 0) {
				t.Errorf("for a token, check %d waited %v", i, waited)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, stall(http.StatusTemporaryRedirect, http.Header{"Location": {"/elsewhere"}}, "<a"))
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		for i := range 3 {
			start := time.Now()
			got, err := once(t.Context(), r, Query{ReadManifest: true}, 4*time.Second)
			if waited := time.Since(start); err != nil || got.Host != registryName || (waited > time.Second) != (i == 0) {
				t.Errorf("behind a redirect, check %d waited %v: %+v, %v", i, waited, got, err)
			}
		}
	})
}
