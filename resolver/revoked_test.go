// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// revoking is a registry with a token server whose tokens but the newest of a repository
// are revoked as soon as anybody says so.
type revoking struct {
	next scripted // answers whoever has a token that is good
	code int      // the answer to one that is not

	mu     sync.Mutex
	issued int
	good   string // the tokens that are not revoked begin with it
	log    []string
}

func (r *revoking) revoke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good += "x"
	r.log = nil
}

func (r *revoking) tokens(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issued++
	r.log = append(r.log, "token")
	return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"t%s-%d"}`, r.good, r.issued)), nil
}

func (r *revoking) registry(req *http.Request) (*http.Response, error) {
	if isProbe(req) {
		return answering(http.StatusUnauthorized)(req)
	}
	r.mu.Lock()
	good := strings.HasPrefix(req.Header.Get("Authorization"), "Bearer t"+r.good+"-")
	r.log = append(r.log, req.Method)
	r.mu.Unlock()
	switch {
	case good:
		return r.next(req)
	case req.Header.Get("Authorization") != "":
		return answering(r.code, "WWW-Authenticate", challengeFor(req))(req)
	}
	return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeFor(req))(req)
}

func challengeFor(req *http.Request) string { return challengeAt("auth.test", req) }

// challengeAt names a token server.
func challengeAt(server string, req *http.Request) string {
	repository := strings.TrimPrefix(req.URL.Path, "/v2/")
	for _, part := range []string{"/manifests/", "/blobs/"} {
		repository, _, _ = strings.Cut(repository, part)
	}
	return `Bearer realm="http://` + server + `/token",scope="repository:` + repository + `:pull"`
}

// serving is a resolver that asks it, and has learnt by one repository what it wants.
func (r *revoking) serving(t *testing.T) *Resolver {
	t.Helper()
	var n fakeNet
	n.set(registryName, r.registry)
	n.set("auth.test", r.tokens)
	asks := newResolver(t, fakeOptions(n.roundTrip, registryName))
	if _, err := once(t.Context(), asks, Query{Reference: registryName + "/team/first:v1", Credentials: alice}, plenty); err != nil {
		t.Fatal(err)
	}
	return asks
}

// A token for what was presumed that the host refuses, since it was revoked before the host
// has ever taken it, is fetched anew once: however the host says so, and in whichever way it is
// asked. The fresh one's refusal counts.
func TestRevokedTokensOfPresumptions(t *testing.T) {
	for _, code := range []int{401, 403} {
		for name, q := range map[string]Query{"HEAD": {}, "GET or HEAD": {Absent: true}, "GET": {ReadManifest: true}} {
			for what, want := range map[string]failure.Class{"taken": failure.None, "refused": fault.StatusClass(code)} {
				t.Run(fmt.Sprint(name, " ", code, " ", what), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						reg := &revoking{next: fine, code: code}
						r := reg.serving(t)
						q.Credentials = alice
						reg.next = answering(500) // nothing is confirmed by that
						_, err := once(t.Context(), r, q, plenty)
						wantClass(t, err, failure.Unavailable)
						reg.revoke()
						if reg.next = fine; want != failure.None {
							reg.next = answering(code, "WWW-Authenticate", `Bearer realm="http://auth.test/token",scope="repository:team/app:pull"`)
						}
						_, err = once(t.Context(), r, q, plenty)
						if want != failure.None {
							wantClass(t, err, want)
						} else if err != nil {
							t.Errorf("%v: %v", err, reg.log)
						}
					})
				})
			}
		}
	}
}

// The refusal of what was presumed to one way does not spend the doubt of the other.
func TestBothWaysDoubt(t *testing.T) {
	for name, first := range map[string]string{"HEAD is refused first": http.MethodHead, "GET is refused first": http.MethodGet} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := &revoking{next: fine, code: 403}
				open := func(late bool, found scripted) scripted { // to those without a token
					return func(req *http.Request) (*http.Response, error) {
						switch shown := req.Header.Get("Authorization") != ""; {
						case shown && late:
							return after(5*time.Second, answering(403))(req)
						case shown:
							return answering(403)(req)
						}
						return found(req)
					}
				}
				asks := newResolver(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
					switch {
					case req.URL.Host == "auth.test":
						return reg.tokens(req)
					case strings.Contains(req.URL.Path, "/first/"):
						return reg.registry(req)
					}
					return byMethod(open(first == http.MethodHead, fine), open(false, answering(404)))(req)
				}), registryName))
				checkOnce(t, asks, Query{Reference: registryName + "/team/first:v1", Credentials: alice})
				got, err := once(t.Context(), asks, Query{Credentials: alice, Absent: true}, 8*time.Second)
				if err != nil || !got.Anonymous {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// A token that was revoked after the check is fetched anew for manifests and blobs alike.
func TestRevokedTokensOfAPull(t *testing.T) {
	for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageLayer} {
		t.Run(mediaType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := &revoking{next: fine, code: 401}
				r := reg.serving(t)
				s := openAt(t, r, Query{Credentials: alice, Known: otherDigest})
				found, err := s.Resolve(t.Context(), plenty)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					reg.revoke()
					desc := found.Descriptor
					desc.MediaType = mediaType
					fetcher, err := s.Source(desc).Fetcher(t.Context(), imageRef)
					if err != nil {
						t.Fatal(err)
					}
					content, err := fetcher.Fetch(t.Context(), desc)
					if err != nil {
						t.Fatal(err)
					}
					if data, err := io.ReadAll(content); err != nil || string(data) != string(manifest) {
						t.Errorf("got %q, %v", data, err)
					}
					_ = content.Close()
				}
			})
		})
	}
}
