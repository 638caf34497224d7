// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry has a guarded repository and an open one. Its token server, which would refuse the
// caller for the latter, answers 503 first. Two pods ask for the open repository: nobody is refused,
// and a pull, to which the registry has never said that it wants a token, succeeds.
func TestPullOfAnOpenRepositoryWhileATokenIsTriedAgain(t *testing.T) {
	for name, beside := range map[string]bool{"alone": false, "beside another check": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var tokens atomic.Int64
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if strings.Contains(req.URL.Path, "/guarded/") && req.Header.Get("Authorization") == "" {
						challenge := `Bearer realm="http://auth.test/token",service="x",scope="repository:guarded/app:pull"`
						return answering(http.StatusUnauthorized, "WWW-Authenticate", challenge)(req)
					}
					time.Sleep(200 * time.Millisecond)
					return manifestAnswer(req), nil
				})
				n.set("auth.test", func(req *http.Request) (*http.Response, error) {
					_ = req.ParseForm()
					switch {
					case strings.Contains(req.Form.Encode()+req.URL.RawQuery, "guarded"):
						return answer(req, http.StatusOK, nil, `{"access_token":"good","token":"good"}`), nil
					case tokens.Add(1) == 1:
						return answer(req, http.StatusServiceUnavailable, nil, ""), nil
					}
					select {
					case <-time.After(time.Second):
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
					return answer(req, http.StatusForbidden, nil, ""), nil
				})
				j := &joinedTokens{t: t, resolver: newResolver(t, fakeOptions(besideProbes(n.roundTrip), registryName))}
				j.want(j.check(t.Context(), Query{Reference: registryName + "/guarded/app:v1"}, plenty), failure.None, 0)

				if beside {
					first := j.check(t.Context(), Query{}, plenty)
					defer func() {
						if got := <-first; got.err != nil {
							t.Error(got.err)
						}
					}()
				}
				s := openAt(t, j.resolver, Query{Credentials: alice})
				got, err := s.Resolve(t.Context(), plenty)
				if err != nil {
					t.Fatal(err)
				}
				source := s.Source(got.Descriptor)
				if _, err := read(t, source, got.Descriptor); err != nil {
					t.Errorf("the pull: %v; refusals: %+v", err, source.Refusals())
				}
			})
		})
	}
}
