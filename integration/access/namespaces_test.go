// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// byNamespace has proofs count for namespaces, on all images.
var byNamespace = nodetest.Section(`access_identity = "Namespace"`)

// Pods of two namespaces, and of none that is known.
var (
	teamA = node.Pod("team-a", "pod")
	teamB = node.Pod("team-b", "pod")
	noPod = []node.PullOption{node.Pod("", "pod"), func(r *runtimeapi.PullImageRequest) { r.SandboxConfig = nil }}
)

// malformed are credentials that cannot be told apart from others.
var malformed = node.Auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte("no colon"))})

// wantReuse holds who may reuse an image that a pod of team-a has proved, without a
// request: every pod of that namespace, and no other.
func (s *scene) wantReuse() {
	s.T.Helper()
	for _, ref := range []string{s.ref(":1"), s.digest} {
		for _, policy := range []string{"Never", "IfNotPresent"} {
			for _, who := range []caller{alice, bob, eve, wrong, nobody} {
				s.wantPull(who, policy, ref, "Present", teamA)
			}
		}
		s.wantPull(nobody, "Never", ref, "Present", teamA, malformed)
		for _, who := range []caller{alice, bob, eve, wrong, nobody} {
			for _, elsewhere := range append(noPod, teamB) {
				s.wantPull(who, "Never", ref, "Failed", elsewhere)
			}
		}
	}
}

// TestAccessOfANamespace holds that a proof is everybody's in its namespace, and
// nobody's in another, or in none that is known, with the registry well or down.
func TestAccessOfANamespace(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.digest = s.push("1", nodetest.Image(1))
			s.wantPull(wrong, "IfNotPresent", s.ref(":1"), "Failed", teamA)
			s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Pulled", teamA)
			s.wantReuse()
			if proofs := s.proofs(s.ref(":1")); len(proofs) != 1 || strings.Contains(proofs[0], "team") {
				t.Errorf("proofs are %v", proofs)
			}
			g.Refuse()
			s.wantReuse()
			for _, who := range []caller{alice, bob, eve, wrong, nobody} {
				s.wantPull(who, "IfDigestChanged", s.ref(":1"), "UsedCached", teamA)
				s.wantPull(who, "Always", s.ref(":1"), "Failed", teamA)
				for _, elsewhere := range append(noPod, teamB) {
					s.wantPull(who, "IfDigestChanged", s.ref(":1"), "Failed", elsewhere)
					s.wantPull(who, "IfNotPresent", s.digest, "Failed", elsewhere)
				}
			}
			s.Restore()
			s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Unchanged", teamB)
			s.wantPull(nobody, "Never", s.ref(":1"), "Present", teamB)
		})
	}
}

// TestNamespaceAfterRotation gives a user a new password while the registry fails:
// who has it falls back all the same, in the namespace that has the proof alone.
func TestNamespaceAfterRotation(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	before := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	before.serve(n)
	s := before.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled", teamA)

	renewed := caller{alice.user, "the new password of alice"}
	after := newGuarded(t, resolvertest.WithTokenAuth, "r.test", renewed)
	after.serve(n)
	s = after.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	after.Refuse()
	s.wantPull(renewed, "IfDigestChanged", ref, "UsedCached", teamA)
	s.wantPull(renewed, "IfNotPresent", ref, "Present", teamA)
	s.wantPull(renewed, "Never", byDigest, "Present", teamA)
	s.wantPull(renewed, "IfDigestChanged", ref, "Failed", teamB)
	s.Restore()
	s.wantPull(renewed, "Always", ref, "Unchanged", teamA)
	// The old one is refused like any that is wrong.
	s.wantPull(alice, "Always", ref, "Failed", teamA)
	s.wantPull(renewed, "Never", ref, "Failed", teamA)
}

// TestRefusalOfANamespace holds that a pod that the registry refuses, by whatever
// secret, ends the proof of its namespace: for all tags and digests, at once, for
// good. Other namespaces keep theirs.
func TestRefusalOfANamespace(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(n)
		s := g.scene(t, n, "private/app")
		s.digest = s.push("1", nodetest.Image(1))
		s.push("2", nodetest.Image(2))
		for _, who := range []caller{wrong, eve, nobody} {
			for _, policy := range []string{"Always", "IfDigestChanged"} {
				s.wantPull(alice, "Always", s.ref(":1"), "~", teamA)
				s.wantPull(bob, "Always", s.ref(":2"), "~", teamA)
				s.wantPull(bob, "Always", s.ref(":1"), "~", teamB)
				s.wantPull(who, policy, s.ref(":1"), "Failed", teamA)
				for _, ref := range []string{s.ref(":1"), s.ref(":2"), s.digest} {
					s.wantPull(alice, "Never", ref, "Failed", teamA)
				}
				s.wantPull(alice, "Never", s.ref(":1"), "Present", teamB)
			}
		}
		s.Kill()
		s.Restart()
		g.Refuse()
		s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Failed", teamA)
		s.wantPull(nobody, "IfDigestChanged", s.ref(":1"), "UsedCached", teamB)
	}
}

// TestRefusalOfANamespaceDuringAPull holds that a refusal of one pod ends also what
// the registry allowed another of its namespace, whose pull is under way.
func TestRefusalOfANamespaceDuringAPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	undo := g.Hang(resolvertest.Blobs)
	results := make(chan error, 2)
	for _, pod := range []node.PullOption{teamA, teamB} {
		go func() {
			_, err := s.Pull(s.ref(":1"), alice.secret(), pod)
			results <- err
		}()
	}
	nodetest.Eventually(t, "both are allowed to", func() bool { return g.Count(answeredTag) == 2 })
	nodetest.Eventually(t, "a pull is under way", func() bool { return g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	s.MustFail(s.ref(":1"), nil, wrong.secret(), teamA)
	undo()
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	s.wantPull(alice, "Never", s.ref(":1"), "Failed", teamA)
	s.wantPull(alice, "Never", s.ref(":1"), "Present", teamB)
}

// TestNoNamespace holds that where no namespace is known no proof is made, and only
// one for everybody counts.
func TestNoNamespace(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	for i, pod := range noPod {
		s := g.scene(t, n, []string{"private/app", "private/other"}[i])
		s.push("1", nodetest.Image(int64(i)))
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Pulled", pod)
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "Unchanged", pod)
		s.wantPull(alice, "Never", s.ref(":1"), "Failed", pod)
		nodetest.Want(t, "proofs", len(s.proofs(s.ref(":1"))), 0)
	}
	public := g.scene(t, n, "public/app")
	public.push("1", nodetest.Image(2))
	public.wantPull(nobody, "IfNotPresent", public.ref(":1"), "Pulled", teamA)
	for _, pod := range append(noPod, teamA, teamB) {
		public.wantPull(eve, "Never", public.ref(":1"), "Present", pod)
	}
}

// TestIdentityChanges holds that a proof of one kind is none where a rule has the
// other, and that no proof comes back with its rule after a refusal.
func TestIdentityChanges(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	identity := func(of string) {
		t.Helper()
		s.WriteRules("identity.toml", "[[rule]]\nimages = [\"r.test/**\"]\naccess_identity = \""+of+"\"\n")
	}
	identity("Namespace")
	s.wantPull(alice, "Always", ref, "Pulled", teamA)
	identity("Credentials")
	for _, who := range []caller{alice, bob, nobody} {
		s.wantPull(who, "Never", ref, "Failed", teamA)
	}
	s.wantPull(bob, "IfNotPresent", ref, "Unchanged", teamB)
	s.wantPull(bob, "Never", ref, "Present", teamB)
	identity("Namespace")
	s.wantPull(bob, "Never", ref, "Failed", teamB)
	s.wantPull(bob, "Never", ref, "Present", teamA)
	identity("Credentials")
	s.wantPull(wrong, "Always", ref, "Failed", teamA)
	identity("Namespace")
	s.wantPull(alice, "Never", ref, "Failed", teamA)
	s.wantPull(alice, "IfNotPresent", ref, "Unchanged", teamA)
	g.deny(bob.user, s.repo, true)
	s.wantPull(bob, "Always", ref, "Failed", teamB)
	identity("Credentials")
	s.wantPull(bob, "Never", ref, "Failed", teamB)
}

// TestIdentityIsNoHint holds that no pod can choose whose proofs count for it.
func TestIdentityIsNoHint(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled", teamA)
	for _, key := range []string{"access-identity", "access_identity"} {
		s.MustFail(s.ref(":1"), []string{"pullwarden.io/" + key}, bob.secret(), teamA, node.Hint(key, "Namespace", "policy", "Never"))
	}
}

// TestNamespaceTTL holds that access_ttl ends the proof of a namespace like any other.
func TestNamespaceTTL(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace, nodetest.Section(`access_ttl = "1h"`))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled", teamA)
	s.waitForWrites()
	for _, ref := range []string{s.ref(":1"), s.digest} {
		s.setProofs(ref, func(string) string { return ago(2 * time.Hour) })
	}
	s.wantPull(alice, "Never", s.ref(":1"), "Failed", teamA)
	s.wantPull(bob, "IfNotPresent", s.ref(":1"), "Unchanged", teamA)
	s.wantPull(nobody, "Never", s.ref(":1"), "Present", teamA)
}
