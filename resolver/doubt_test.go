// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// changing is a registry that answers tokens of which nothing is known any more, or that say too little, by a status without a
// challenge. Its token server gives others since.
type changing struct {
	fakeNet
	mu    sync.Mutex
	code  int
	life  string // of the tokens, as the token server says it
	good  string // "" = no token is any good
	given string // "" = each time another one
	count int
}

func (c *changing) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *changing) registry(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	c.mu.Lock()
	code, good := c.code, c.good
	c.mu.Unlock()
	switch token := req.Header.Get("Authorization"); {
	case token == "":
		return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeFor(req))(req)
	case good != "" && token == "Bearer "+good:
		return fine(req)
	}
	return answering(code)(req)
}

func (c *changing) tokens(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":%q%s}`, cmp.Or(c.given, fmt.Sprint("new-", c.count)), c.life)), nil
}

// newChanging is one that has taken the token "old", which its token server gives an hour.
func newChanging(t *testing.T, code int) (*changing, *Resolver) {
	t.Helper()
	c := &changing{code: code, good: "old", given: "old", life: `,"expires_in":3600`}
	c.fakeNet.set(registryName, c.registry)
	c.fakeNet.set("auth.test", c.tokens)
	r := newResolver(t, fakeOptions(besideProbes(c.roundTrip), registryName))
	checkOnce(t, r, Query{Credentials: alice})
	wantAsked(t, &c.fakeNet, headHost, oneToken, headHost)
	time.Sleep(time.Second)
	return c, r
}

const oneToken = "POST auth.test"

// wantAnswer checks, and compares the class of the failure, its refusals and the requests. They may be by HEAD or GET.
func (c *changing) wantAnswer(t *testing.T, r *Resolver, q Query, class failure.Class, want ...string) {
	t.Helper()
	_, err := once(t.Context(), r, q, plenty)
	if class == failure.None && err != nil {
		t.Error(err)
	} else if class != failure.None {
		if e := wantClass(t, err, class); len(e.Refusals()) > 0 != class.Refuses() {
			t.Errorf("refusals: %+v", e.Refusals())
		}
	}
	got := c.asked()
	for i := range got {
		got[i] = strings.Replace(got[i], http.MethodGet, http.MethodHead, 1)
	}
	if got = slices.Compact(got); !slices.Equal(got, want) { // after 403 to HEAD the reason is asked for by GET, and by HEAD after 404 to GET
		t.Errorf("got requests %v, want %v", got, want)
	}
}

// A token of before the check that the registry does not take is replaced by a fresh one, however it says so.
func TestTokensThatAreNotTaken(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 410} {
		for name, q := range map[string]Query{"HEAD": {}, "GET or HEAD": {Absent: true}, "GET": {ReadManifest: true}} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, r := newChanging(t, code)
					c.set(func() { c.good, c.given = "new", "new" })
					q.Credentials = alice
					c.wantAnswer(t, r, q, failure.None, headHost, oneToken, headHost)
					c.wantAnswer(t, r, q, failure.None, headHost)
				})
			})
		}
	}
}

// The answer to a fresh token counts. Whatever a registry says, it has its token server asked for no more than one in 10 seconds, or
// in a minute where it says that there is nothing.
func TestFreshTokensThatAreNotTaken(t *testing.T) {
	for code, rest := range map[int]time.Duration{
		400: 10 * time.Second, 403: 10 * time.Second, 404: time.Minute,
	} {
		for name, given := range map[string]string{"another": "", "the same again": "old"} {
			t.Run(fmt.Sprint(code, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, r := newChanging(t, code)
					c.set(func() { c.good, c.given = "", given })
					class, q := fault.StatusClass(code), Query{Credentials: alice}
					asked := []string{headHost, oneToken, headHost}
					if given == "old" {
						asked = asked[:2] // nobody has to hear the answer to it again
					}
					if given == "old" && code == 403 {
						asked = append(asked, headHost) // for the reason
					}
					c.wantAnswer(t, r, q, class, asked...)
					c.wantAnswer(t, r, q, class, headHost)
					time.Sleep(rest - time.Second)
					c.wantAnswer(t, r, q, class, headHost)
					time.Sleep(time.Second)
					c.wantAnswer(t, r, q, class, asked...)
				})
			})
		}
	}
}

// While there is no fresh token, what the registry says counts, and soon. The token stays in use, unless the token server
// refuses the caller.
func TestNoFreshToken(t *testing.T) {
	for name, test := range map[string]struct {
		tokens scripted
		next   failure.Class
	}{
		"out of order": {answering(http.StatusServiceUnavailable), failure.None},
		"hangs":        {mute, failure.None},
		"refuses":      {answering(http.StatusForbidden), failure.Unauthorized},
	} {
		for _, code := range []int{403, 404} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, r := newChanging(t, code)
					c.set(func() { c.good = "" })
					c.fakeNet.set("auth.test", test.tokens)
					began := time.Now()
					_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
					wantClass(t, err, fault.StatusClass(code))
					if took := time.Since(began); took > 6*time.Second {
						t.Errorf("it took %v", took)
					}
					c.set(func() { c.good = "old" })
					_, err = once(t.Context(), r, Query{Credentials: alice}, plenty)
					if test.next != failure.None {
						wantClass(t, err, test.next)
					} else if err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// Many pods have one token that the registry does not take any more: one fresh token is for all of them.
func TestStormOfTokensThatAreNotTaken(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := newChanging(t, code)
				c.set(func() { c.good, c.given = "new", "new" })
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						time.Sleep(time.Duration(i%5) * 9 * time.Millisecond) // before, while and after a fresh one is asked for
						if _, err := once(t.Context(), r, Query{Reference: fmt.Sprintf("%s/team/app:v%d", registryName, i), Credentials: alice}, plenty); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				tokens := slices.DeleteFunc(c.asked(), func(request string) bool { return request != oneToken })
				if len(tokens) != 1 {
					t.Errorf("%d tokens were asked for", len(tokens))
				}
			})
		})
	}
}

// A pull that begins with a token of before has a fresh one, too, for all that it fetches. That there is no such content it
// believes at once: another host may have it.
func TestPullWithATokenThatIsNotTaken(t *testing.T) {
	layer := manifestDesc
	layer.MediaType = "application/vnd.oci.image.layer.v1.tar"
	for code, want := range map[int][]string{
		400: {getHost, oneToken, getHost, getHost},
		401: {getHost, oneToken, getHost, getHost},
		403: {getHost, oneToken, getHost, getHost},
		404: {getHost, getHost},
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := newChanging(t, code)
				c.set(func() { c.good, c.given = "new", "new" })
				source := openAt(t, r, Query{Credentials: alice}).Source(manifestDesc)
				_, err := read(t, source, manifestDesc)
				_, errLayer := read(t, source, layer)
				if failed := err != nil || errLayer != nil; failed != (code == 404) {
					t.Errorf("manifest: %v; layer: %v", err, errLayer)
				}
				if refusals := source.Refusals(); len(refusals) > 0 {
					t.Errorf("refusals: %+v", refusals)
				}
				wantAsked(t, &c.fakeNet, want...)
			})
		})
	}
}

// In a pull, a registry that refuses each token has its token server asked once, and its refusal counts.
func TestPullThatIsRefusedByFreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := newChanging(t, 403)
		c.set(func() { c.good, c.given = "", "" })
		source := openAt(t, r, Query{Credentials: alice}).Source(manifestDesc)
		for range 3 {
			time.Sleep(time.Minute)
			if _, err := read(t, source, manifestDesc); err == nil {
				t.Error("it is taken")
			}
		}
		if refusals := source.Refusals(); len(refusals) != 1 {
			t.Errorf("refusals: %+v", refusals)
		}
		wantAsked(t, &c.fakeNet, getHost, oneToken, getHost, getHost, getHost)
	})
}

// A token whose server does not say how long it is good is for a minute, in a pull that lasts longer as well.
func TestTokensOfAMinute(t *testing.T) {
	for _, life := range []string{``, `,"expires_in":0`, `,"expires_in":60`} {
		t.Run(life, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, r := newChanging(t, 400)
				c.set(func() { c.life = life })
				other := Query{Reference: registryName + "/team/other@" + digest.FromBytes(manifest).String(), Credentials: alice}
				source := openAt(t, r, other).Source(manifestDesc)
				reads := func(want ...string) {
					t.Helper()
					if _, err := read(t, source, manifestDesc); err != nil {
						t.Error(err)
					}
					wantAsked(t, &c.fakeNet, want...)
				}
				reads(getHost, oneToken, getHost)
				time.Sleep(59 * time.Second)
				reads(getHost)
				time.Sleep(time.Second)
				reads(oneToken, getHost)
			})
		})
	}
}
