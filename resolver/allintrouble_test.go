// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// countOf is how often a host was asked for a manifest.
func countOf(asked []string, name string) (count int) {
	for _, request := range asked {
		if request == "HEAD "+name {
			count++
		}
	}
	return count
}

// wellToProbes has a host answer its probes after a time, and requests in another way.
func wellToProbes(after time.Duration, requests scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		if isProbe(req) {
			time.Sleep(after)
			return answering(http.StatusOK)(req)
		}
		return requests(req)
	}
}

// All hosts were in trouble, and nothing is cached: the dial of the first has a second, since the registry is asked after it.
func TestDialWhereAllHostsAreInTrouble(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	if err := mirror.Swallow(); err != nil {
		t.Fatal(err)
	}
	origin, _ := serve(t, serveManifest)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL(), origin.URL))}})
	for _, url := range []string{mirror.URL(), origin.URL} {
		trouble(t, r, health.Key{Host: url}, unavailable)
	}
	began := time.Now()
	got, err := openAt(t, r, Query{Absent: true}).Resolve(t.Context(), time.Minute)
	if took := time.Since(began); err != nil || got.Host != serverHost(origin) || took > 10*time.Second {
		t.Errorf("got %+v, %v after %v", got, err, took)
	}
}

// A mirror is asked once, and the registry is the next try, also where both were in trouble: where all hosts are asked, since nothing
// else is left, and where probes find both well. It is tried again where it is the last that will be asked.
func TestTriesWhereAllHostsWereInTrouble(t *testing.T) {
	for name, test := range map[string]struct {
		query    Query
		registry scripted
		tries    int // of the mirror
	}{
		"nothing cached":                      {Query{}, near, 1},
		"a cached image":                      {reused, wellToProbes(time.Millisecond, near), 1},
		"a cached image, and the registry is": {reused, mute, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				for _, name := range []string{mirrorName, registryName} {
					n.set(name, answering(http.StatusServiceUnavailable))
				}
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				_, _ = once(t.Context(), r, Query{}, 5*time.Second)
				synctest.Wait()
				time.Sleep(2 * health.Fresh)
				n.set(mirrorName, wellToProbes(2*time.Millisecond, answering(http.StatusServiceUnavailable, "Retry-After", "1")))
				n.set(registryName, test.registry)
				n.asked()
				got, err := once(t.Context(), r, test.query, 20*time.Second)
				asked := n.asked()
				if tries := countOf(asked, mirrorName); tries != test.tries || (err == nil) != (test.tries == 1) {
					t.Errorf("got %+v, %v; asked %q", got, err, asked)
				}
			})
		})
	}
}

// A mirror and its token server were in trouble, and are well, and the registry behind it is well again, too, and refuses connections:
// a check waits for the probe of the token server, though the registry is asked after the mirror.
func TestTokenServerOfAMirrorBeforeARegistryThatIsWellAgain(t *testing.T) {
	for caller, query := range callers {
		t.Run(caller, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				h := newHome(&n, mirrorName, "auth.test")
				n.set(registryName, answering(http.StatusServiceUnavailable))
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				query.Credentials = alice
				breaks(&h.tokens, answering(http.StatusServiceUnavailable))
				_, _ = once(t.Context(), r, query, 5*time.Second)
				synctest.Wait()
				breaks(&h.rest, answering(http.StatusServiceUnavailable))
				_, _ = once(t.Context(), r, Query{}, 5*time.Second)
				synctest.Wait()
				if troubled := r.Troubled(); len(troubled) != 3 {
					t.Fatalf("got %+v", troubled)
				}
				h.tokens.Store(nil)
				h.rest.Store(nil)
				time.Sleep(2 * time.Minute)
				n.set(registryName, wellToProbes(0, refuse))
				n.asked()
				if got, err := once(t.Context(), r, query, 5*time.Second); err != nil || got.Host != mirrorName {
					t.Errorf("got %+v, %v; asked %q", got, err, n.asked())
				}
			})
		})
	}
}

// The same mirror is asked where nothing is cached, and its token server has 503 for probes alone, before a registry in trouble.
func TestTokenServerThatHas5xxForProbesWhereAllHostsAreInTrouble(t *testing.T) {
	addresses(t, mirrorName, func(t *testing.T, at string) {
		var n fakeNet
		h := newHome(&n, mirrorName, at)
		n.set(registryName, answering(http.StatusServiceUnavailable))
		breaks(&h.tokens, answering(http.StatusServiceUnavailable))
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		query := of("team/app", "alice")
		query.Fallback = failure.SetOf()
		_, _ = once(t.Context(), r, query, 5*time.Second)
		synctest.Wait()
		breaks(&h.tokens, forCallersAlone)
		time.Sleep(2 * health.Fresh)
		n.asked()
		got, err := once(t.Context(), r, query, 5*time.Second)
		asked := n.asked()
		if err != nil || got.Host != mirrorName || slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(a, "HEAD "+registryName) }) {
			t.Errorf("got %+v, %v; asked %q", got, err, asked)
		}
	})
}

// forCallersAlone is a token server that has 503 for who shows nothing, such as a probe.
func forCallersAlone(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost && req.Header.Get("Authorization") == "" {
		return answering(http.StatusServiceUnavailable)(req)
	}
	return answer(req, http.StatusOK, nil, `{"token":"fine","access_token":"fine","expires_in":60}`), nil
}
