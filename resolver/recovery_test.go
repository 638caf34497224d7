// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// reused is a query of somebody who has a cached image.
var reused = Query{Fallback: failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited)}

// The first checks after a recovery ask the host that is well again: they share one probe,
// and do not wait until the next one would be due.
func TestFirstCheckAfterARecovery(t *testing.T) {
	for name, fault := range map[string]scripted{"silent": mute, "503": answering(http.StatusServiceUnavailable)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, fault)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				if _, err := once(t.Context(), r, reused, 2*time.Second); err == nil {
					t.Fatal("no error")
				}
				synctest.Wait()
				if !r.health.Blocked(health.KeyOf("http", registryName)) {
					t.Fatal("the host is in no trouble")
				}
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if isProbe(req) {
						time.Sleep(100 * time.Millisecond)
					}
					return manifestAnswer(req), nil
				})
				time.Sleep(health.Fresh)
				n.asked()
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						began := time.Now()
						_, err := once(t.Context(), r, reused, 2*time.Second)
						if waited := time.Since(began); err != nil || waited != 100*time.Millisecond {
							t.Errorf("after %v: %v", waited, err)
						}
					})
				}
				wg.Wait()
				probes := 0
				for _, asked := range n.asked() {
					if strings.HasPrefix(asked, http.MethodGet) {
						probes++
					}
				}
				if probes != 1 {
					t.Errorf("%d probes", probes)
				}
			})
		})
	}
}

// The second check of a registry that hangs is told at once, whatever time the first one
// had.
func TestSecondCheckOfASilentHost(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, 5 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			n.set(registryName, mute)
			r := newResolver(t, fakeOptions(n.roundTrip, registryName))
			for _, want := range []time.Duration{timeout, 0} {
				began := time.Now()
				_, err := once(t.Context(), r, reused, timeout)
				wantClass(t, err, failure.Unreachable)
				if took := time.Since(began); took != want {
					t.Errorf("within %v: took %v, want %v", timeout, took, want)
				}
			}
		})
	}
}

// A limit and a time-out are remembered for the repository and the caller who met with
// them, from one request to the next; others ask, and so do those who have nothing else.
func TestTroubleOfOneRepository(t *testing.T) {
	bob := func(string) (string, string, error) { return "bob", "secret", nil }
	unknown := func(string) (string, string, error) { return "", "", errors.New("unreadable") }
	for name, fault := range map[string]struct {
		answer scripted
		class  failure.Class
	}{
		"429":    {answering(http.StatusTooManyRequests, "Retry-After", "300"), failure.RateLimited},
		"silent": {mute, failure.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if strings.Contains(req.URL.Path, "/app/") {
						return fault.answer(req)
					}
					return manifestAnswer(req), nil
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				ask := func(credentials Credentials, repository string, fallback failure.Set) (took time.Duration, err error) {
					began := time.Now()
					_, err = once(t.Context(), r, Query{Reference: registryName + "/team/" + repository + ":v1", Credentials: credentials, Fallback: fallback}, 2*time.Second)
					synctest.Wait()
					return time.Since(began), err
				}
				for range 3 { // by the first of them
					_, err := ask(alice, "app", reused.Fallback)
					wantClass(t, err, fault.class)
				}
				n.asked()
				took, err := ask(alice, "app", reused.Fallback)
				if e := wantClass(t, err, fault.class); took != 0 || !strings.Contains(e.Error(), "not asked before") {
					t.Errorf("after %v: %v", took, e)
				}
				wantAsked(t, &n)
				if _, err := ask(alice, "other", reused.Fallback); err != nil {
					t.Error(err)
				}
				wantAsked(t, &n, "HEAD "+registryName)
				for _, credentials := range []Credentials{bob, unknown, nil} {
					if _, err = ask(credentials, "app", reused.Fallback); err == nil {
						t.Error("no error")
					}
					if asked := n.asked(); len(asked) == 0 {
						t.Error("another caller does not ask")
					}
				}
				if _, err := ask(alice, "app", 0); err == nil || len(n.asked()) == 0 {
					t.Errorf("not asked although nothing else is left: %v", err)
				}
			})
		})
	}
}

// A budget that a caller cut short says nothing to those who have more time.
func TestShortBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, scripted(besideProbes(func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Second):
				return manifestAnswer(req), nil
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		})))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		for _, budget := range []int{100, 400, 600, 900} {
			_, err := once(t.Context(), r, reused, time.Duration(budget)*time.Millisecond)
			wantClass(t, err, failure.Unreachable)
			if _, err := once(t.Context(), r, reused, 5*time.Second); err != nil {
				t.Error(err)
			}
		}
	})
}

// A registry is back after an outage, of which a tenant's request that waits has seen the end as little as its
// probe. A hint that leaves no time puts it into no trouble by that: others do not notice.
func TestShortHintAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		tenant := Query{Reference: registryName + "/tenant/app:v1"}
		var wg sync.WaitGroup
		check := func() {
			wg.Go(func() {
				if _, err := once(t.Context(), r, reused, 5*time.Second); err != nil {
					t.Errorf("the registry has been well for 3s: %v", err)
				}
			})
		}
		wg.Go(func() { _, _ = once(t.Context(), r, tenant, 2*time.Minute) })
		time.Sleep(9 * time.Second) // behind the second probe, and some seconds before the third
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			delay := 300 * time.Millisecond
			switch {
			case isProbe(req):
				delay = 100 * time.Millisecond
			case strings.Contains(req.URL.Path, "/tenant/"): // its repository hangs
				return mute(req)
			}
			time.Sleep(delay)
			return manifestAnswer(req), nil
		})
		time.Sleep(3 * time.Second)
		if len(r.Troubled()) != 1 {
			t.Fatalf("got %+v", r.Troubled())
		}
		check() // which is under way
		time.Sleep(50 * time.Millisecond)
		_, err := once(t.Context(), r, tenant, 100*time.Millisecond)
		wantClass(t, err, failure.Unreachable)
		check()
		wg.Wait()
	})
}

// Nor does it keep the pulls of others from asking, which have more time than any check.
func TestShortBudgetsAndPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layer := func(req *http.Request) (*http.Response, error) { return answer(req, http.StatusOK, nil, "layer"), nil }
		var n fakeNet
		n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/blobs/") {
				return layer(req)
			}
			return besideProbes(func(req *http.Request) (*http.Response, error) {
				select { // slow to say what a tag is
				case <-time.After(time.Second):
					return manifestAnswer(req), nil
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			})(req)
		})
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		s := openAt(t, r, Query{})
		got, err := s.Resolve(t.Context(), 5*time.Second)
		if err != nil || got.Host != mirrorName {
			t.Fatalf("got %+v, %v", got, err)
		}
		if got, err := once(t.Context(), r, Query{Reference: registryName + "/team/app:other"}, 1500*time.Millisecond); err != nil || got.Host != registryName {
			t.Fatalf("got %+v, %v", got, err)
		}
		synctest.Wait() // for the probe of the mirror
		n.asked()
		f, err := s.Source(got.Descriptor).Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := f.Fetch(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("layer"), Size: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		if _, err := rc.Read(make([]byte, 5)); err != nil {
			t.Error(err)
		}
		wantAsked(t, &n, "GET "+mirrorName)
	})
}
