// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Metrics and the status of a node name token servers that are in trouble. A registry may name
// one by what it was sent.
func TestTokenServersNamedBySecrets(t *testing.T) {
	secrets := map[string]bool{"pa55w0rd": true, "token-1": true, "auth": false}
	for secret, hidden := range secrets {
		t.Run(secret, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				query := Query{Credentials: func(string) (string, string, error) { return username, "Pa55W0rd", nil }}
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					realm := "tokens.test"
					if shown := req.Header.Get("Authorization") != ""; shown || isProbe(req) {
						realm = secret + ".evil.test"
					}
					return answering(401, "WWW-Authenticate", `Bearer realm="http://`+realm+`/token"`)(req)
				})
				n.set("tokens.test", func(req *http.Request) (*http.Response, error) {
					return answer(req, http.StatusOK, nil, `{"access_token":"token-1"}`), nil
				})
				n.set(secret+".evil.test", mute)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				_, err := once(t.Context(), r, query, 8*time.Second)
				wantClass(t, err, failure.Unreachable)
				synctest.Wait()
				states := r.Troubled()
				if hidden && len(states) > 0 || !hidden && (len(states) != 1 || !strings.Contains(states[0].Host, secret)) {
					t.Errorf("got %+v", states)
				}
			})
		})
	}
}

// A secret has what ends the host of a URL, and the token server is named by what stands before:
// nobody who asks for hosts in trouble is told of that.
func TestTokenServersInTroubleNamedByPartsOfSecrets(t *testing.T) {
	for _, behind := range []string{"/more", ":80", ":80/more"} {
		t.Run(behind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				secret := "summer2024xyz" + behind
				var n fakeNet
				n.set(registryName, answering(401, "WWW-Authenticate", `Bearer realm="http://`+secret+`/token"`))
				host, _, _ := strings.Cut(secret, "/")
				n.set(host, mute)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				_, err := once(t.Context(), r, Query{Credentials: as("alice", secret)}, 8*time.Second)
				wantClass(t, err, failure.Unreachable)
				synctest.Wait()
				if states := r.Troubled(); len(states) > 0 {
					t.Errorf("got %+v", states)
				}
			})
		})
	}
}
