// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// docs/access.md: "A mirror may be another path of the host in `server`, such as an open project beside a
// private one: it is a mirror all the same, and labels name it with that path". The host in server is
// called as the name here, as in most hosts.toml.
func TestOpenPathOfTheServerIsAMirror(t *testing.T) {
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/public/") {
			serveManifest(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	host := serverHost(server)
	root := t.TempDir()
	dir := filepath.Join(root, strings.ReplaceAll(host, ":", "_")+"_")
	for _, name := range []string{dir, filepath.Join(root, host)} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		toml := "server = \"" + server.URL + "\"\n[host.\"" + server.URL + "/v2/public\"]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n"
		if err := os.WriteFile(filepath.Join(name, "hosts.toml"), []byte(toml), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, Options{HostDirs: []string{root}}, Query{Reference: host + "/team/app:v1", Order: OriginOnly})
	found, err := s.Resolve(t.Context(), 10*time.Second)
	t.Logf("%v %+v %v", log.list(), found, err)
	if err == nil {
		t.Errorf("resolve_from = \"Origin\": %s of the mirror counts as the registry's, by %q", found.Descriptor.Digest, found.Host)
	}
}
