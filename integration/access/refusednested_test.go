// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalOfAManifestBeforeAMirror holds that the registry's refusal of the manifest in an
// index ends the caller's proofs where checks read manifests, also where the check has
// confirmed the index that is here, and a mirror behind the registry has the manifest.
func TestRefusalOfAManifestBeforeAMirror(t *testing.T) {
	t.Parallel()
	s, mirror := beforeAMirror(t, nodetest.Section(nodetest.IfDigestChanged, `check_with = "Manifest"`))
	index := resolvertest.Index(1, 2, 500)
	digest := s.PushTo(s.g.Registry, "private/app:1", index).String()
	s.PushTo(mirror, "private/app:1", index)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/manifests/sha256:") && !strings.HasSuffix(r.URL.Path, digest) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(bob, "Always", s.ref(":1"), "Unchanged") // the mirror has it
	for _, tag := range []string{":1", ":0"} {
		s.wantPull(bob, "Never", s.ref(tag), "Failed")
	}
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
}
