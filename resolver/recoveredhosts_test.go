// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// near answers after 10 ms.
func near(req *http.Request) (*http.Response, error) {
	select {
	case <-time.After(10 * time.Millisecond):
		return manifestAnswer(req), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

func refuse(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// callers are those who have something else to use, and those who have not.
var callers = map[string]Query{
	"a cached image":            reused,
	"Always, an image is there": {Known: digest.FromString("old")},
	"nothing cached":            {},
}

// wasInTrouble has a host of the resolver get into trouble, and be well again for minutes.
func wasInTrouble(t *testing.T, r *Resolver, n *fakeNet, name string, well scripted) {
	t.Helper()
	n.set(name, mute)
	_, _ = once(t.Context(), r, Query{}, 5*time.Second)
	time.Sleep(health.ProbeTime)
	synctest.Wait()
	if !r.health.Blocked(health.KeyOf("http", name)) {
		t.Fatalf("%s is in no trouble", name)
	}
	n.set(name, well)
	time.Sleep(2 * time.Minute)
	n.asked()
}

// A check asks a mirror that is well before an old verdict about it counts, also where it has an image to
// use, and where the registry uses up all of its time.
func TestMirrorThatIsWellAgain(t *testing.T) {
	for name, fails := range map[string]scripted{
		"refused": refuse, "503": answering(http.StatusServiceUnavailable), "silent": mute,
	} {
		for caller, query := range callers {
			t.Run(name+", "+caller, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					n.set(registryName, fine)
					r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
					wasInTrouble(t, r, &n, mirrorName, near)
					n.set(registryName, fails)
					if got, err := once(t.Context(), r, query, 5*time.Second); err != nil || got.Host != mirrorName {
						t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
					}
				})
			})
		}
	}
}

// A mirror that hangs leaves time for the registry, whatever was known of that minutes ago.
func TestRegistryThatIsWellAgainBehindAMirrorThatHangs(t *testing.T) {
	for caller, query := range callers {
		t.Run(caller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(mirrorName, answering(http.StatusNotFound))
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				wasInTrouble(t, r, &n, registryName, near)
				n.set(mirrorName, mute)
				if got, err := once(t.Context(), r, query, 5*time.Second); err != nil || got.Host != registryName {
					t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
				}
			})
		})
	}
}

// A mirror whose token server is well again is asked like one that is so itself.
func TestTokenServerThatIsWellAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, fine)
		n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
			}
			return manifestAnswer(req), nil
		})
		n.set("auth.test", mute)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		query := reused
		query.Credentials = alice
		if _, err := once(t.Context(), r, query, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(r.Troubled()) != 1 {
			t.Fatalf("got %+v", r.Troubled())
		}
		n.set("auth.test", func(req *http.Request) (*http.Response, error) {
			return answer(req, http.StatusOK, nil, `{"access_token":"fine","expires_in":60}`), nil
		})
		n.set(registryName, refuse)
		time.Sleep(2 * time.Minute)
		n.asked()
		if got, err := once(t.Context(), r, query, 5*time.Second); err != nil || got.Host != mirrorName {
			t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
		}
	})
}

// However many hosts are in trouble by old verdicts, a check waits for all of their probes together. None of
// them is asked that a probe confirms.
func TestHostsInTroubleAreWaitedForTogether(t *testing.T) {
	names := []string{"a.test", "b.test", "c.test", registryName}
	for name, order := range map[string]Order{"as listed": ListedOrder, "the registry first": OriginThenMirrors} {
		for _, refuses := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", the registry refuses connections"}[refuses], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					for _, name := range names {
						n.set(name, mute)
					}
					r := newResolver(t, fakeOptions(n.roundTrip, names...))
					_, err := once(t.Context(), r, Query{}, 5*time.Second)
					wantClass(t, err, failure.Unreachable)
					synctest.Wait()
					time.Sleep(time.Minute)
					if refuses {
						r.health.Forget(health.KeyOf("http", registryName))
						n.set(registryName, refuse)
					}
					n.asked()
					query := reused
					query.Order = order
					began := time.Now()
					_, err = once(t.Context(), r, query, 5*time.Second)
					wantClass(t, err, failure.Unreachable)
					if waited := time.Since(began); waited > health.MaxWait {
						t.Errorf("waited %v: %v", waited, err)
					}
					for _, asked := range n.asked() {
						if strings.HasPrefix(asked, http.MethodHead) && (!refuses || !strings.HasSuffix(asked, registryName)) {
							t.Errorf("asked %q", asked)
						}
					}
				})
			})
		}
	}
}

// A registry whose trouble is another by now is asked all the same where its caller has nothing to use after that.
func TestTroubleThatIsAnotherByNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName, mirrorName))
		wasInTrouble(t, r, &n, registryName, answering(http.StatusServiceUnavailable))
		n.set(mirrorName, answering(http.StatusNotFound))
		_, err := once(t.Context(), r, Query{Fallback: failure.SetOf(failure.Unreachable)}, 5*time.Second)
		wantClass(t, err, failure.Unavailable)
		if asked := n.asked(); !slices.Contains(asked, "HEAD "+registryName) {
			t.Errorf("asked %q", asked)
		}
	})
}
