// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// home is a host that gives tokens for all of its repositories at an address of its own or of another. They
// are good for a minute.
type home struct {
	tokens, rest atomic.Pointer[scripted] // nil = it is well
}

func newHome(n *fakeNet, name, at string) *home {
	h := &home{}
	for _, host := range []string{name, at} {
		n.set(host, func(req *http.Request) (*http.Response, error) {
			switch rest := h.rest.Load(); {
			case strings.HasPrefix(req.URL.Path, "/token"):
				if tokens := h.tokens.Load(); tokens != nil {
					return (*tokens)(req)
				}
				return answer(req, http.StatusOK, nil, `{"token":"fine","access_token":"fine","expires_in":60}`), nil
			case rest != nil:
				return (*rest)(req)
			case req.Header.Get("Authorization") == "":
				scope := ""
				if parts := strings.Split(req.URL.Path, "/"); len(parts) > 3 {
					scope = fmt.Sprintf(`,scope="repository:%s/%s:pull"`, parts[2], parts[3])
				}
				return answering(http.StatusUnauthorized, "WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token"%s`, at, scope))(req)
			}
			return manifestAnswer(req), nil
		})
	}
	return h
}

// breaks has the host answer requests for tokens, or all others, in another way.
func breaks(what *atomic.Pointer[scripted], how scripted) { what.Store(&how) }

// of is a check of a repository for its own caller, who has something else to use.
func of(repository, user string) Query {
	return Query{
		Reference: registryName + "/" + repository + ":v1", Credentials: as(user, "password"),
		Fallback: failure.SetOf(failure.Unreachable, failure.Unavailable),
	}
}

// waits fails where a check waits for longer than pods do for a host that is known to be in trouble.
func waits(t *testing.T, r *Resolver, q Query) {
	t.Helper()
	began := time.Now()
	found, err := once(t.Context(), r, q, 5*time.Second)
	if waited := time.Since(began); waited > health.MaxWait {
		t.Errorf("%s waits for %v: %s %v", q.Reference, waited, found.Host, err)
	}
}

// addresses are those at which tokens are had for a host.
func addresses(t *testing.T, name string, test func(t *testing.T, at string)) {
	for _, at := range []string{"auth.test", name} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, at) })
		})
	}
}

// One pod waits for a token server that hangs, also where it is at the registry's own address; those
// after it wait no longer than for a registry that hangs, whatever their repositories and credentials.
func TestTokenServerThatHangs(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		breaks(&newHome(&n, registryName, at).tokens, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		_, err := once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
		wantClass(t, err, failure.Unreachable)
		for i := range 4 {
			time.Sleep(time.Duration(i) * time.Second)
			waits(t, r, of(fmt.Sprint("team/app", i), fmt.Sprint("user", i)))
		}
	})
}

// The same of a mirror, which is passed over then.
func TestTokenServerOfAMirrorThatHangs(t *testing.T) {
	addresses(t, mirrorName, func(t *testing.T, at string) {
		var n fakeNet
		n.set(registryName, fine)
		breaks(&newHome(&n, mirrorName, at).tokens, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		checkOnce(t, r, of("team/app", "alice"))
		for i := range 4 {
			time.Sleep(2 * health.ProbeTime)
			waits(t, r, Query{Reference: fmt.Sprintf("%s/team/app%d:v1", registryName, i), Absent: true})
		}
	})
}

// Who is given tokens ends no trouble of a registry that hangs, in however many repositories they ask for them.
func TestTokensEndNoTroubleOfTheRegistry(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		h := newHome(&n, registryName, at)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		checkOnce(t, r, of("victim/app", "victim"))
		checkOnce(t, r, of("tenant/app", "tenant"))
		breaks(&h.rest, mute)
		_, err := once(t.Context(), r, of("victim/app", "victim"), 5*time.Second)
		wantClass(t, err, failure.Unreachable)
		for i := range 3 {
			insisting := of(fmt.Sprint("tenant/app", i), "tenant")
			insisting.Fallback = 0
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = once(t.Context(), r, insisting, 8*time.Second)
			}()
			time.Sleep(100 * time.Millisecond)
			waits(t, r, of(fmt.Sprint("victim/more", i), "victim"))
			<-done
		}
	})
}

// A registry is dead, with the tokens that it gives itself. That costs one time-out in all, whether its
// pods begin with a token that has expired, with one for another repository, or with none.
func TestDeadRegistryThatGivesTokensItself(t *testing.T) {
	for name, first := range map[string]Query{
		"a token that has expired": of("team/app", "alice"),
		"another repository":       of("team/other", "alice"),
		"another caller":           of("team/other", "bob"),
	} {
		for how, dead := range map[string]scripted{"hangs": mute, "answers 503": answering(http.StatusServiceUnavailable)} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					h := newHome(&n, registryName, registryName)
					r := newResolver(t, fakeOptions(n.roundTrip, registryName))
					checkOnce(t, r, of("team/app", "alice"))
					time.Sleep(2 * time.Minute)
					breaks(&h.tokens, dead)
					breaks(&h.rest, dead)
					if _, err := once(t.Context(), r, first, 5*time.Second); err == nil {
						t.Fatal("no error")
					}
					for i := range 3 {
						time.Sleep(2 * time.Second)
						waits(t, r, of("team/app", "alice"))
						waits(t, r, of(fmt.Sprint("team/new", i), "alice"))
						waits(t, r, of("team/app", fmt.Sprint("user", i)))
					}
					if b := r.Troubled(); len(b) != 1 || !b[0].Open || b[0].Host != "http://"+registryName {
						t.Errorf("got %+v", b)
					}
				})
			})
		}
	}
}

// A download asks a mirror that is in trouble for no token, though that would be given.
func TestNoTokensOfAMirrorInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, fine)
		newHome(&n, mirrorName, mirrorName)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		s := openAt(t, r, of("team/app", "alice"))
		found, err := s.Resolve(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the token has expired
		trouble(t, r, health.KeyOf("http", mirrorName), unavailable)
		n.asked()
		fetchManifest(t, s, found.Descriptor)
		wantAsked(t, &n, "GET "+registryName)
	})
}
