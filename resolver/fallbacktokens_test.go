// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A registry without TLS is dead, with the tokens that it gives itself. That costs one time-out in all, also where hosts.toml has
// http:// with a setting of TLS.
func TestDeadRegistryInClearThatGivesTokensItself(t *testing.T) {
	for what, settings := range map[string]string{"http://": "", "http:// with a setting of TLS": "skip_verify = true\n"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var dead atomic.Bool
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case dead.Load():
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				case r.URL.Path == "/token":
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprint(w, `{"token":"fine","access_token":"fine","expires_in":1}`)
				case r.Header.Get("Authorization") == "":
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x",scope="repository:team/app:pull"`, r.Host))
					w.WriteHeader(http.StatusUnauthorized)
				case isProbe(r):
				default:
					serveManifest(w, r)
				}
			})
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, fmt.Sprintf("server = %q\n%s", server.URL, settings))}})
			const callers = 4
			for i := range callers {
				if _, err := once(t.Context(), r, of("team/app", fmt.Sprint("user", i)), 5*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(1500 * time.Millisecond) // the tokens expire
			dead.Store(true)
			_, err := once(t.Context(), r, of("team/app", "user0"), 3*time.Second)
			t.Log("the first pod:", err)
			for i := 1; i < callers; i++ {
				time.Sleep(500 * time.Millisecond)
				began := time.Now()
				_, err := once(t.Context(), r, of("team/app", fmt.Sprint("user", i)), 3*time.Second)
				if waited := time.Since(began); waited > health.MaxWait+250*time.Millisecond {
					t.Errorf("pod %d waits for %v: %v", i, waited, err)
				}
			}
			t.Logf("in trouble: %+v", r.Troubled())
		})
	}
}
