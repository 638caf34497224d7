// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// byMethod is a registry on a network that says when headers were written.
func byMethod(get, head scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		if isProbe(req) {
			return answering(http.StatusUnauthorized)(req)
		}
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.WroteHeaders != nil {
			trace.WroteHeaders()
		}
		if req.Method == http.MethodHead {
			return head(req)
		}
		return get(req)
	}
}

// after answers when that time is over.
func after(d time.Duration, next scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return next(req)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

// wayTests are answers to GET and to HEAD in a check of 8 s, and what becomes of it.
var wayTests = map[string]struct {
	get, head scripted
	class     failure.Class // None = it is found
	refused   bool
	kept      bool // the pull has the bytes
	took      time.Duration
	requests  int
}{
	"GET is fine":                    {fine, mute, failure.None, false, true, 0, 1},
	"GET is refused alone":           {answering(403), fine, failure.None, false, false, 0, 2},
	"both are refused":               {answering(403), answering(403), failure.Forbidden, true, false, 0, 2},
	"GET is refused, HEAD is away":   {answering(403), answering(500), failure.Forbidden, true, false, 0, 4},
	"GET is refused, HEAD is 404":    {answering(403), answering(404), failure.Forbidden, true, false, 0, 2},
	"GET is refused, HEAD is silent": {answering(403), mute, failure.Forbidden, true, false, 8 * time.Second, 2},
	"GET is 500, HEAD is refused":    {answering(500), answering(403), failure.Forbidden, true, false, 0, 2},
	"GET is 500, HEAD is silent":     {answering(500), mute, failure.Unavailable, false, false, 8 * time.Second, 2},
	"GET is 500, HEAD is 404":        {answering(500), answering(404), failure.NotFound, false, false, 0, 2},
	"GET is 404":                     {answering(404), fine, failure.NotFound, false, false, 0, 1},

	"GET is slow":                         {after(6*time.Second, fine), fine, failure.None, false, false, 4 * time.Second, 2},
	"GET is slow, HEAD is refused":        {after(6*time.Second, fine), answering(403), failure.None, false, true, 6 * time.Second, 2},
	"GET is slow, HEAD is 404":            {after(6*time.Second, fine), answering(404), failure.None, false, true, 6 * time.Second, 2},
	"GET is slow, HEAD is silent":         {after(6*time.Second, fine), mute, failure.None, false, true, 6 * time.Second, 2},
	"GET is late, HEAD is refused":        {mute, answering(403), failure.Forbidden, true, false, 7500 * time.Millisecond, 2},
	"GET is slow and 403, HEAD is silent": {after(6*time.Second, answering(403)), mute, failure.Forbidden, true, false, 8 * time.Second, 2},
	"GET is slow and 404, HEAD is silent": {after(6*time.Second, answering(404)), mute, failure.NotFound, false, false, 6 * time.Second, 2},
	"both are silent":                     {mute, mute, failure.Unreachable, false, false, 8 * time.Second, 2},
}

// GET and HEAD are two whole ways to the answer of a check, and the one with more weight
// counts. A registry that answers either of them is in no trouble.
func TestWays(t *testing.T) {
	for name, test := range wayTests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var requests atomic.Int32 // but for probes
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if !isProbe(req) {
						requests.Add(1)
					}
					return byMethod(test.get, test.head)(req)
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				s := openAt(t, r, Query{Absent: true})
				start := time.Now()
				got, err := s.Resolve(t.Context(), 8*time.Second)
				if took := time.Since(start); took < test.took || took > test.took+time.Second {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if n := int(requests.Load()); n != test.requests {
					t.Errorf("got %d requests, want %d", n, test.requests)
				}
				if kept := s.(*session).keptFor(got.Descriptor) != nil; kept != test.kept {
					t.Errorf("kept is %v", kept)
				}
				if test.class == failure.None {
					if err != nil || got.Descriptor.Digest != manifestDigest {
						t.Errorf("got %+v, %v", got, err)
					}
					return
				}
				if e := wantClass(t, err, test.class); (len(e.Refusals()) == 1) != test.refused {
					t.Errorf("refusals: %v", e.Refusals())
				}
				silent := name == "both are silent"
				if blocked := r.health.Blocked(health.KeyOf("http", registryName)); blocked && !silent {
					t.Errorf("in trouble: %+v", r.Troubled())
				}
			})
		})
	}
}

// A caller who leaves ends both ways.
func TestWaysEndWithTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, byMethod(mute, mute))
		s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, registryName)), Query{Absent: true})
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		if _, err := s.Resolve(ctx, 8*time.Second); err == nil || !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v", err)
		}
	})
}

// Each way meets the challenges that it is given: who answers HEAD to all may want
// credentials for GET, and the other way round.
func TestWaysAreChallengedEachByItself(t *testing.T) {
	guarded := func(next scripted) scripted {
		return func(req *http.Request) (*http.Response, error) {
			if _, secret, _ := req.BasicAuth(); secret == password {
				return next(req)
			}
			return answering(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="x"`)(req)
		}
	}
	for name, test := range map[string]struct {
		get, head scripted
		class     failure.Class
		anonymous bool
	}{
		"HEAD is open, GET is not":        {guarded(answering(500)), fine, failure.None, false}, // it is shown what GET was
		"GET fails openly, HEAD is not":   {answering(500), guarded(fine), failure.None, false},
		"both are guarded":                {guarded(answering(403)), guarded(fine), failure.None, false},
		"both are guarded, and refused":   {guarded(answering(403)), guarded(answering(403)), failure.Forbidden, false},
		"GET is slow, HEAD has no access": {after(6*time.Second, fine), answering(401), failure.None, true},
		"both are guarded, GET is slow":   {guarded(mute), guarded(fine), failure.None, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, byMethod(test.get, test.head))
				s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, registryName)), Query{Absent: true, Credentials: alice})
				got, err := s.Resolve(t.Context(), 8*time.Second)
				if test.class != failure.None {
					wantClass(t, err, test.class)
				} else if err != nil || got.Anonymous != test.anonymous {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// The GET of a manifest is redirected to a storage service that answers 400, 401 or 403 (as it does to a signature
// that it does not take). HEAD, which the registry answers itself, has the digest; a pull may have the manifest elsewhere.
func TestHeadAfterAStorageServiceRefusesTheManifest(t *testing.T) {
	for _, code := range []int{400, 401, 403} {
		storage, _ := serve(t, answerStatus(code))
		server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if isHead(r) {
				serveManifest(w, r)
				return
			}
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		found, err := resolve(t, Query{Absent: true}, server.URL)
		if err != nil || found.Descriptor.Digest != manifestDigest {
			t.Errorf("%d: %v; %q", code, err, log.list())
		}
	}
}
