// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asking counts the requests of a fakeNet since it was asked last.
func (n *fakeNet) asking(request string) (times int) {
	for _, r := range n.asked() {
		if r == request {
			times++
		}
	}
	return times
}

// While a token server is in trouble, however it is, nobody fails by a token of unknown life that is good, and the server is not
// asked by each.
func TestPodsWhileATokenOfUnknownLifeIsNotRenewed(t *testing.T) {
	answers := func(content string) scripted {
		return func(req *http.Request) (*http.Response, error) { return answer(req, http.StatusOK, nil, content), nil }
	}
	for name, trouble := range map[string]scripted{
		"hangs": mute, "swallows": swallows, "503 after 20 s": after(20*time.Second, answering(http.StatusServiceUnavailable)),
		"503": answering(http.StatusServiceUnavailable), "429": answering(http.StatusTooManyRequests),
		"404": answering(http.StatusNotFound), "415": answering(http.StatusUnsupportedMediaType),
		"no token": answers(`{}`), "a page": answers("<html>maintenance</html>"),
	} {
		for _, budget := range []time.Duration{5 * time.Second, plenty} {
			t.Run(fmt.Sprint(name, ", ", budget), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, r := newLifeless(t, 0)
					time.Sleep(2 * time.Minute)
					l.set("tokens.test", trouble)
					var failed atomic.Int32
					var all sync.WaitGroup
					for i := range 60 {
						all.Go(func() {
							time.Sleep(time.Duration(i) * time.Second)
							if _, err := once(t.Context(), r, Query{Credentials: alice}, budget); err != nil {
								failed.Add(1)
							}
						})
					}
					all.Wait()
					if n, asked := failed.Load(), l.asking(postTokens); n > 0 || asked > 14 {
						t.Errorf("%d of 60 checks fail; the token server is asked %d times", n, asked)
					}
				})
			})
		}
	}
}

// Nor does a pull that began with one wait for it at each content.
func TestPullWithATokenThatIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, 0)
		time.Sleep(2 * time.Minute)
		l.set("tokens.test", answering(http.StatusServiceUnavailable))
		s := openAt(t, r, Query{Credentials: alice})
		if _, err := s.Resolve(t.Context(), plenty); err != nil {
			t.Fatal(err)
		}
		l.set("tokens.test", after(2*time.Minute, answering(http.StatusServiceUnavailable)))
		source, began := s.Source(manifestDesc), time.Now()
		for range 5 {
			if _, err := read(t, source, manifestDesc); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("five reads take %v", took)
		}
	})
}

// A token server that the host names no more gets no credentials, also where its token's life is unknown.
func TestTokenOfUnknownLifeWhoseServerHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, 0)
		time.Sleep(61 * time.Minute)
		l.set("other.test", l.tokens)
		l.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeAt("other.test", req))(req)
			}
			return fine(req)
		})
		l.set("tokens.test", func(req *http.Request) (*http.Response, error) {
			if body, _ := io.ReadAll(req.Body); strings.Contains(string(body), "password") {
				t.Errorf("the old token server gets %q", body)
			}
			return l.tokens(req)
		})
		for range 4 {
			checkOnce(t, r, Query{Credentials: alice})
			time.Sleep(40 * time.Second)
		}
	})
}
