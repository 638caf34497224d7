// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalOfOtherSpelling refuses credentials that a registry cannot tell from others,
// which are parted at another colon (RFC 7617): a refusal of the one is one of the other.
func TestRefusalOfOtherSpelling(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.push("1", nodetest.Image(1))
			before, after, _ := strings.Cut(alice.password, ":")
			spelled := caller{alice.user + ":" + before, after}
			s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
			s.wantPull(spelled, "Always", s.ref(":1"), "Unchanged")
			g.deny(alice.user, s.repo, true)
			s.wantPull(alice, "Always", s.ref(":1"), "Failed")
			s.wantPull(alice, "Never", s.ref(":1"), "Failed")
			s.wantPull(spelled, "Never", s.ref(":1"), "Failed")
		})
	}
}

// TestRefusalOfAnotherUserName has a registry that takes one secret with several user names,
// as some take tokens: each is a caller of its own.
func TestRefusalOfAnotherUserName(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	first, second := caller{"x-token", "Pa55-of-a-token-0123456789"}, caller{"y-token", "Pa55-of-a-token-0123456789"}
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test", first, second)
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(first, "Always", s.ref(":1"), "Pulled")
	s.wantPull(second, "Always", s.ref(":1"), "Unchanged")
	for _, who := range []caller{first, second} {
		s.wantPull(who, "Never", s.ref(":1"), "Present")
		g.deny(who.user, s.repo, true)
		s.wantPull(who, "Always", s.ref(":1"), "Failed")
		s.wantPull(who, "Never", s.ref(":1"), "Failed")
	}
}
