// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Two paths of one mirror stand before the registry: the first has not the tag, the second may pull alone, and has the manifest.
// So it is the source, as where the two are hosts of their own (docs/sources.md: "a mirror that may pull", "two mirrors, the first
// has nothing"), for an image that is not there as for one that is.
func TestSourceBehindAnotherPathOfTheMirror(t *testing.T) {
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/second/") {
			serveManifest(w, r)
			return
		}
		answerStatus(http.StatusNotFound)(w, r)
	})
	other, _ := serve(t, answerStatus(http.StatusNotFound))
	origin, _ := serve(t, serveManifest)
	for name, first := range map[string]string{"another host": other.URL, "the same host": mirror.URL} {
		for _, absent := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " absent=", absent), func(t *testing.T) {
				toml := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n  override_path = true\n[host.%q]\n  capabilities = [\"pull\"]\n  override_path = true\n",
					origin.URL, first+"/v2/first", mirror.URL+"/v2/second")
				s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{Absent: absent, Fallback: failure.SetOf()})
				found, err := s.Resolve(t.Context(), plenty)
				if err != nil {
					t.Fatal(err)
				}
				src := s.Source(found.Descriptor)
				f, err := src.Fetcher(t.Context(), imageRef)
				if err != nil {
					t.Fatal(err)
				}
				rc, err := f.Fetch(t.Context(), found.Descriptor)
				if err != nil {
					t.Fatal(err)
				}
				defer rc.Close()
				buf := make([]byte, 1)
				if _, err := rc.Read(buf); err != nil {
					t.Fatal(err)
				}
				if got, want := src.Served().Reference, serverHost(mirror)+"/second/team/app:v1"; got != want {
					t.Errorf("the source is %s, want %s", got, want)
				}
			})
		}
	}
}
