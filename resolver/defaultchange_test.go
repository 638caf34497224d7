// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The hosts.toml of _default is put right, by which a mirror answers 503 otherwise. The next check of any registry
// asks the mirror: of one that was not asked before, and of that whose check has found the mirror in trouble.
func TestChangeOfDefaultEndsTroubleForAllRegistries(t *testing.T) {
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Route") != "right" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		serveManifest(w, r)
	}))
	defer mirror.Close()
	root := t.TempDir()
	dir := filepath.Join(root, "_default")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(route string) {
		text := fmt.Sprintf("[host.%q]\n[host.%q.header]\nx-route = %q\n", mirror.URL, mirror.URL, route)
		if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set("wrong")
	r := newResolver(t, Options{HostDirs: []string{root}})
	fallback := failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited)
	check := func(ref string) error {
		s, err := r.Open(t.Context(), Query{Reference: ref, Fallback: fallback})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Resolve(t.Context(), 2*time.Second)
		return err
	}
	const one, other = "127.0.0.1:1/team/app:1", "127.0.0.2:1/team/app:1" // firewalled: the mirror alone answers
	if check(one) == nil {
		t.Fatal("the mirror answers")
	}
	waitFor(t, func() bool { return len(r.Troubled()) > 0 && r.Troubled()[0].Open })
	set("right")
	for _, ref := range []string{other, one} {
		if err := check(ref); err != nil {
			t.Errorf("after the change: %v", err)
		}
	}
}
