// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// tries are a part of a message that depends on the time there was.
var tries = regexp.MustCompile(` \(\d+ tries\)`)

// TestAccessErrorsInTrouble has a mirror that hangs before a registry that is in trouble.
// Who may not have an image learns as little then: the image on the node changes neither
// who is asked nor for how long.
func TestAccessErrorsInTrouble(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	here, gone := g.scene(t, n, "private/here"), g.scene(t, n, "private/gone")
	here.push("1", nodetest.Image(1))
	gone.push("1", nodetest.Image(1))
	here.wantPull(alice, "Always", here.ref(":1"), "Pulled")
	mirror := resolvertest.New(t)
	mirror.Hang(resolvertest.Manifests)
	told := func(s *scene, policy string) string {
		t.Helper()
		_, err := s.Pull(s.ref(":1"), nobody.secret(), node.Hint("policy", policy, "verify-timeout", "4s"))
		if err == nil {
			t.Fatalf("%s by %s succeeds", s.ref(":1"), policy)
		}
		return tries.ReplaceAllString(moments.ReplaceAllString(strings.ReplaceAll(err.Error(), s.repo, "private/it"), ""), "")
	}
	g.Status(resolvertest.All, http.StatusServiceUnavailable)
	nodetest.Eventually(t, "the registry is in trouble", func() bool {
		here.wantPull(alice, "IfDigestChanged", here.ref(":1"), "UsedCached")
		return g.Count(resolvertest.Of(http.MethodHead, resolvertest.Manifests)) == 0
	})
	n.Serve("r.test", g.Registry, mirror)
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
		private, absent := told(here, policy), told(gone, policy)
		if private != absent {
			t.Errorf("%s:\nprivate: %s\nabsent:  %s", policy, private, absent)
		}
	}
}
