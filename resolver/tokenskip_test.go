// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// docs/performance.md, "Hosts in trouble": a host is asked all the same, after all others. The token server
// of a mirror was in trouble and is well again, and the registry behind the mirror refuses connections, as
// a firewall does: it is never in trouble, and never has an answer.
func TestMirrorWhoseTokenServerWasInTroubleIsAskedAllTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		hosts    []string
		own      bool // the mirror itself was in trouble, and not its token server
		onlyAnon bool // the token server goes on to answer 503 to probes, which have no credentials
	}{
		"the mirror alone":                       {hosts: []string{mirrorName}},
		"the mirror itself was in trouble":       {hosts: []string{mirrorName, registryName}, own: true},
		"its token server was":                   {hosts: []string{mirrorName, registryName}},
		"its token server is, to anonymous only": {hosts: []string{mirrorName, registryName}, onlyAnon: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tokenServer = "auth.test"
				var n fakeNet
				mirror := func(req *http.Request) (*http.Response, error) {
					if req.Header.Get("Authorization") == "" {
						return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokenServer+`/token"`)(req)
					}
					return manifestAnswer(req), nil
				}
				tokens := func(req *http.Request) (*http.Response, error) {
					if test.onlyAnon && req.Method == http.MethodGet {
						return answering(http.StatusServiceUnavailable)(req)
					}
					return answer(req, http.StatusOK, nil, `{"access_token":"a-good-token"}`), nil
				}
				n.set(mirrorName, mirror)
				n.set(tokenServer, tokens)
				n.set(registryName, func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				})
				inTrouble := tokenServer
				if test.own {
					inTrouble = mirrorName
				}
				n.set(inTrouble, answering(http.StatusServiceUnavailable))
				r := newResolver(t, fakeOptions(n.roundTrip, test.hosts...))
				if got, err := once(t.Context(), r, Query{Credentials: alice}, 5*time.Second); err == nil {
					t.Fatalf("%s answers 503, and %s has an answer", inTrouble, got.Host)
				}
				synctest.Wait()
				n.set(mirrorName, mirror)
				n.set(tokenServer, tokens)
				for i := range 3 {
					time.Sleep(20 * time.Second)
					synctest.Wait()
					n.asked()
					if _, err := once(t.Context(), r, Query{Credentials: alice}, 5*time.Second); err != nil {
						t.Errorf("check %d: %v, asked %q", i, err, n.asked())
					}
				}
			})
		})
	}
}

// And so it is in a download, where the others turn out not to have the content.
func TestFetchFromAMirrorWhoseTokenServerIsInTrouble(t *testing.T) {
	for name, own := range map[string]bool{"the mirror is in trouble": true, "its token server is": false} {
		t.Run(name, func(t *testing.T) {
			tokens := servedBy(t, giveToken)
			mirror, _ := serve(t, wantsToken(tokens.URL(), nil))
			origin, _ := serve(t, answerStatus(http.StatusNotFound))
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}})
			key := health.Key{Host: mirror.URL}
			if !own {
				key = health.Key{Host: tokens.URL(), For: mirror.URL, Tokens: true}
			}
			trouble(t, r, key, unavailable)
			s := openAt(t, r, Query{Credentials: alice})
			desc := manifestDesc
			f, err := s.Source(desc).Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			rc, err := f.Fetch(t.Context(), desc)
			if err != nil {
				t.Fatal(err)
			}
			defer rc.Close()
			if _, err := rc.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
}
