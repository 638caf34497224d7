// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	headPart  = "HEAD manifests"
	tokenPart = "POST tokens"
	getToken  = "GET tokens"
)

// parts are the requests that a registry got, but for probes.
func parts(reg *resolvertest.Registry) (list []string) {
	for _, r := range reg.Requests() {
		if resolvertest.NoProbe(r) {
			list = append(list, r.Method+" "+string(r.Part))
		}
	}
	return list
}

// asked checks a repository and fails unless that takes these requests.
func asked(t *testing.T, reg *resolvertest.Registry, r *Resolver, query Query, class failure.Class, want ...string) Resolution {
	t.Helper()
	reg.Forget()
	query.Reference = registryName + "/" + query.Reference + ":v1"
	found, err := once(t.Context(), r, query, plenty)
	if class != failure.None {
		wantClass(t, err, class)
	} else if err != nil {
		t.Error(err)
	}
	if got := parts(reg); !slices.Equal(got, want) {
		t.Errorf("%s: got requests %v, want %v", query.Reference, got, want)
	}
	return found
}

// several is secured with more repositories.
func several(t *testing.T) (*resolvertest.Registry, *Resolver) {
	t.Helper()
	reg, r, _ := secured(t)
	for _, name := range []string{"team/b", "team/c", "deep/er/d"} {
		if _, err := reg.Push(t.Context(), name+":v1", resolvertest.Image(1, 1, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	return reg, r
}

// The first 401 of a host tells what its other repositories want of the same caller.
func TestChallengesAreRemembered(t *testing.T) {
	reg, r := several(t)
	asked(t, reg, r, Query{Reference: "team/app", Credentials: alice}, failure.None, headPart, tokenPart, headPart)
	for _, name := range []string{"team/b", "deep/er/d"} {
		asked(t, reg, r, Query{Reference: name, Credentials: alice}, failure.None, tokenPart, headPart)
		asked(t, reg, r, Query{Reference: name, Credentials: alice}, failure.None, headPart)
	}
	bob := as("bob", "bob's")
	asked(t, reg, r, Query{Reference: "team/b", Credentials: bob}, failure.None, headPart, tokenPart, headPart) // nothing of alice's
	asked(t, reg, r, Query{Reference: "team/c", Credentials: bob}, failure.None, tokenPart, headPart)
}

// Whatever is refused to what was presumed is asked for in the normal way.
func TestWrongPresumptions(t *testing.T) {
	for name, test := range map[string]struct {
		trouble func(*resolvertest.Registry)
		creds   Credentials
		class   failure.Class
		want    []string
		next    []string // requests for one more repository
	}{
		"there is no such image": {
			func(reg *resolvertest.Registry) { only(reg, "team/b", reply(404)) }, alice,
			failure.NotFound, []string{tokenPart, headPart, headPart}, []string{tokenPart, headPart},
		},
		"open to those without a token": {
			func(reg *resolvertest.Registry) { only(reg, "team/b", openTo(false)) }, alice,
			failure.None, []string{tokenPart, headPart, headPart}, []string{headPart, tokenPart, headPart},
		},
		"all may have it": { // which nobody learns
			func(reg *resolvertest.Registry) { only(reg, "team/b", openTo(true)) }, alice,
			failure.None, []string{tokenPart, headPart}, []string{tokenPart, headPart},
		},
		"another realm": {
			func(reg *resolvertest.Registry) { only(reg, "team/b", elsewhere(reg)) }, alice,
			failure.None, []string{tokenPart, headPart, headPart, "POST other", headPart}, []string{headPart, tokenPart, headPart},
		},
		"the password is wrong": {
			nil, as(username, "wrong"),
			failure.Unauthorized, []string{tokenPart, getToken, headPart}, []string{tokenPart, getToken, headPart},
		},
		"the password is wrong, and none is needed": {
			func(reg *resolvertest.Registry) { only(reg, "team/b", openTo(true)) }, as(username, "wrong"),
			failure.None, []string{tokenPart, getToken, headPart}, []string{headPart, tokenPart, getToken},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reg, r := several(t)
			_, _ = once(t.Context(), r, Query{Credentials: test.creds}, plenty)
			if test.trouble != nil {
				test.trouble(reg)
			}
			found := asked(t, reg, r, Query{Reference: "team/b", Credentials: test.creds}, test.class, test.want...)
			if open := strings.Contains(name, "open") || strings.Contains(name, "none is"); open != found.Anonymous {
				t.Errorf("anonymous: %v", found.Anonymous)
			}
			class := failure.None
			if strings.Contains(name, "password") {
				class = failure.Unauthorized
			}
			asked(t, reg, r, Query{Reference: "team/c", Credentials: test.creds}, class, test.next...)
		})
	}
}

// A refusal has the same words whether its repository was the first to be asked or not:
// they tell nobody what else there is.
func TestRefusalsReadAlike(t *testing.T) {
	_, r := several(t)
	var texts []string
	for _, name := range []string{"team/app", "team/b", "team/none"} {
		_, err := once(t.Context(), r, Query{Reference: registryName + "/" + name + ":v1", Credentials: as(username, "wrong")}, plenty)
		e := wantClass(t, err, failure.Unauthorized)
		texts = append(texts, strings.ReplaceAll(e.Attempts[0].Err.Error(), name, "it"))
	}
	if texts[0] != texts[1] || texts[1] != texts[2] {
		t.Errorf("got texts\n  %s", strings.Join(texts, "\n  "))
	}
}

// Only checks doubt refusals of what is presumed: a pull that comes before an answer has
// confirmed it is not refused for it.
func TestPullsPresumeNothing(t *testing.T) {
	reg, r := several(t)
	asked(t, reg, r, Query{Reference: "team/app", Credentials: alice}, failure.None, headPart, tokenPart, headPart)
	only(reg, "team/b", func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodHead {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		openTo(false)(w, req, next)
	})
	query := Query{Reference: registryName + "/team/b:v1", Credentials: alice}
	_, err := once(t.Context(), r, query, plenty)
	wantClass(t, err, failure.Unavailable)
	s := openAt(t, r, query)
	desc := manifestDesc
	fetcher, err := s.Source(desc).Fetcher(t.Context(), query.Reference)
	if err != nil {
		t.Fatal(err)
	}
	content, err := fetcher.Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if data, err := io.ReadAll(content); err != nil || string(data) != string(manifest) {
		t.Errorf("got %q, %v", data, err)
	}
}

// only scripts the manifests of one repository.
func only(reg *resolvertest.Registry, repository string, answer func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	reg.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.URL.Path, "/v2/"+repository+"/") && r.URL.Path != "/elsewhere" {
			next.ServeHTTP(w, r)
			return
		}
		answer(w, r, next)
	})
}

func reply(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
}

// openTo serves those without a token, and perhaps all.
func openTo(all bool) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if !all && r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		serveManifest(w, r)
	}
}

// elsewhere has a token server of its own.
func elsewhere(reg *resolvertest.Registry) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		switch {
		case r.URL.Path == "/elsewhere":
			_, _ = fmt.Fprint(w, `{"access_token":"special","token":"special"}`)
		case r.Header.Get("Authorization") == "Bearer special":
			serveManifest(w, r)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/elsewhere",service="b",scope="repository:team/b:pull"`, reg.URL()))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// A node that starts asks for 60 images of 12 repositories at once.
func TestBootAsksOnce(t *testing.T) {
	const round, hang = 20 * time.Millisecond, time.Hour
	for name, test := range map[string]struct {
		first time.Duration // until the first request is answered
		most  int           // requests
		took  time.Duration
	}{
		"well":            {round, 1 + 12 + 60, 3 * round},
		"the first hangs": {hang, 2*60 + 12, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var asked atomic.Bool
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if asked.CompareAndSwap(false, true) {
						select {
						case <-time.After(test.first - round):
						case <-req.Context().Done():
							return nil, req.Context().Err()
						}
					}
					time.Sleep(round)
					if req.Header.Get("Authorization") == "Bearer t" {
						return manifestAnswer(req), nil
					}
					repository, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/manifests/")
					return answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token",scope="repository:`+repository+`:pull"`)(req)
				})
				n.set("auth.test", func(req *http.Request) (*http.Response, error) {
					time.Sleep(round)
					return answer(req, http.StatusOK, nil, `{"access_token":"t","token":"t"}`), nil
				})
				r := newResolver(t, fakeOptions(besideProbes(n.roundTrip), registryName))
				start := time.Now()
				var all sync.WaitGroup
				failed := 0
				var mu sync.Mutex
				for i := range 60 {
					all.Go(func() {
						reference := fmt.Sprintf("%s/team/%d:v%d", registryName, i%12, i)
						if _, err := once(t.Context(), r, Query{Reference: reference, Credentials: alice}, time.Second); err != nil {
							mu.Lock()
							failed++
							mu.Unlock()
						}
					})
				}
				all.Wait()
				if took := time.Since(start); took > test.took {
					t.Errorf("it took %v, want at most %v", took, test.took)
				}
				if got := len(n.asked()); got > test.most {
					t.Errorf("%d requests, want at most %d", got, test.most)
				}
				if hung := test.first == hang; hung != (failed > 0) || failed > 1 {
					t.Errorf("%d checks failed", failed)
				}
			})
		})
	}
}
