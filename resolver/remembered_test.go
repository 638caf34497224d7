// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// moving is a registry that names its token server, and may name another one. Tokens live for a minute.
type moving struct {
	fakeNet
	mu    sync.Mutex
	named string // the token server
}

func (m *moving) now() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.named
}

func (m *moving) to(named string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.named = named
}

func (m *moving) registry(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	if req.Header.Get("Authorization") == "Bearer by-"+m.now() {
		return fine(req)
	}
	return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeAt(m.now(), req))(req)
}

func tokensOfAMinute(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"by-%[1]s","token":"by-%[1]s","expires_in":60}`, req.URL.Host)), nil
}

const (
	oldPost, oldGet   = "POST old.test", "GET old.test"
	newPost           = "POST new.test"
	headHost, getHost = "HEAD " + registryName, "GET " + registryName
)

// newMoving is one whose token server has given a token for team/app.
func newMoving(t *testing.T) (*moving, *Resolver) {
	t.Helper()
	m := &moving{named: "old.test"}
	m.set(registryName, m.registry)
	m.set("old.test", tokensOfAMinute)
	m.set("new.test", tokensOfAMinute)
	r := newResolver(t, fakeOptions(besideProbes(m.roundTrip), registryName))
	checkOnce(t, r, Query{Credentials: alice})
	wantAsked(t, &m.fakeNet, headHost, oldPost, headHost)
	return m, r
}

// A registry names another token server. For an hour, the one of before may still be asked, and its refusal is none of the
// registry's; later it gets no password.
func TestTokenServerThatTheRegistryNamesNoMore(t *testing.T) {
	posts := []string{oldPost, headHost, newPost, headHost}
	gets := []string{oldPost, oldGet, headHost, newPost, headHost}
	for name, test := range map[string]struct {
		old  scripted
		want []string
	}{
		"forbids":             {answering(http.StatusForbidden), posts},
		"refuses":             {answering(http.StatusUnauthorized), gets},
		"knows nothing of it": {answering(http.StatusNotFound), gets},
		"is parked": {func(req *http.Request) (*http.Response, error) {
			return answer(req, http.StatusOK, nil, "<html>for sale</html>"), nil
		}, posts},
		"has another owner": {tokensOfAMinute, []string{oldPost, headHost, newPost, headHost}},
	} {
		for after, want := range map[time.Duration][]string{
			30 * time.Minute: test.want,
			time.Hour:        {headHost, newPost, headHost},
		} {
			t.Run(fmt.Sprint(name, " after ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, r := newMoving(t)
					m.set("old.test", test.old)
					m.to("new.test")
					time.Sleep(after)
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &m.fakeNet, want...)
					time.Sleep(2 * time.Minute)
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &m.fakeNet, newPost, headHost)
				})
			})
		}
	}
}

// The token of a pull is over, and the registry names another token server since.
func TestPullWhoseTokenServerIsNamedNoMore(t *testing.T) {
	for after, want := range map[time.Duration][]string{
		30 * time.Minute: {oldPost, getHost, newPost, getHost},
		2 * time.Hour:    {getHost, newPost, getHost},
	} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := newMoving(t)
				s := openAt(t, r, Query{Credentials: alice})
				m.set("old.test", answering(http.StatusForbidden))
				m.to("new.test")
				time.Sleep(after)
				source := s.Source(manifestDesc)
				if _, err := read(t, source, manifestDesc); err != nil || len(source.Refusals()) > 0 {
					t.Errorf("the pull: %v; refusals: %+v", err, source.Refusals())
				}
				wantAsked(t, &m.fakeNet, want...)
			})
		})
	}
}

// The token server refuses the caller once a token is over, or is out of order. The registry still names it: a refusal
// counts, and nobody asks it twice for that. What may pass by itself has the registry asked nothing.
func TestTokenServerThatTheRegistryStillNames(t *testing.T) {
	for name, test := range map[string]struct {
		answers     scripted
		class       failure.Class
		first, next []string
	}{
		"refuses": {
			answering(http.StatusUnauthorized), failure.Unauthorized,
			[]string{oldPost, oldGet, headHost}, []string{headHost, oldPost, oldGet},
		},
		"has no such page": {
			answering(http.StatusNotFound), failure.Invalid,
			[]string{oldPost, oldGet, headHost}, []string{headHost, oldPost, oldGet},
		},
		"is out of order": {
			answering(http.StatusServiceUnavailable), failure.Unavailable,
			[]string{oldPost, oldPost, oldPost}, []string{headHost, oldPost, oldPost, oldPost},
		},
		"limits the node": {answering(http.StatusTooManyRequests), failure.RateLimited, []string{oldPost}, []string{headHost}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := newMoving(t)
				m.set("old.test", test.answers)
				time.Sleep(2 * time.Minute)
				for _, want := range [][]string{test.first, test.next} {
					_, err := once(t.Context(), r, Query{Credentials: alice, Known: manifestDigest, Fallback: failure.SetOf(test.class)}, plenty)
					if e := wantClass(t, err, test.class); (len(e.Refusals()) > 0) != test.class.Refuses() {
						t.Errorf("refusals: %+v", e.Refusals())
					}
					wantAsked(t, &m.fakeNet, want...)
				}
			})
		})
	}
}

// All tokens of a node are over. Its pods cost one token for each repository, and one 401 for all of them an hour.
func TestStormOfExpiredTokens(t *testing.T) {
	for after, test := range map[time.Duration]struct{ unauthorized, tokens int }{
		2 * time.Minute:  {0, 12},
		59 * time.Minute: {0, 12},
		2 * time.Hour:    {1, 12},
	} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := newMoving(t)
				storm := func() {
					var all sync.WaitGroup
					for i := range 60 {
						all.Go(func() {
							reference := fmt.Sprintf("%s/team/%d:v%d", registryName, i%12, i)
							if _, err := once(t.Context(), r, Query{Reference: reference, Credentials: alice}, plenty); err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
				}
				storm()
				m.asked()
				time.Sleep(after)
				storm()
				count := map[string]int{}
				for _, request := range m.asked() {
					count[request]++
				}
				if want := map[string]int{headHost: 60 + test.unauthorized, oldPost: test.tokens}; !maps.Equal(count, want) {
					t.Errorf("got %v, want %v", count, want)
				}
			})
		})
	}
}

// A registry that names its token server for one repository has named it for all that the caller asks for.
func TestTokenServerThatIsNamedAgainElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := newMoving(t)
		other := Query{Reference: registryName + "/team/other:v1", Credentials: alice}
		time.Sleep(59 * time.Minute)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &m.fakeNet, oldPost, headHost)
		time.Sleep(2 * time.Minute)
		checkOnce(t, r, other)
		wantAsked(t, &m.fakeNet, headHost, oldPost, headHost)
		time.Sleep(59 * time.Minute)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &m.fakeNet, oldPost, headHost)
	})
}
