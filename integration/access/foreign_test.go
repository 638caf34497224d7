// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"maps"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// newForeign is a repository whose image alice has pulled, on a node that wants
// proofs of everything below r.test/strict.
func newForeign(t *testing.T) *scene {
	t.Helper()
	n := nodetest.Prepare(t)
	n.WriteRules("strict.toml", "[[rule]]\nimages = [\"r.test/strict/**\"]\naccess = \"Strict\"\n")
	n.Start()
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.waitForWrites()
	return s
}

// TestAccessToAnImportOverATag holds that nothing is known of an image that was
// imported over a tag with proofs: it is not locked for everybody while the
// registry is down, and nothing is shown of it that is true of the other image.
func TestAccessToAnImportOverATag(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	ref := s.ref(":1")
	s.wantPull(nobody, "Never", ref, "Failed")
	s.ImportOver(ref, nodetest.Image(2))
	nodetest.Want(t, "annotations", len(s.Annotations(ref)), 0)
	nodetest.Want(t, "information", s.Status(ref).GetInfo()["pullwarden"], "")
	s.g.Refuse()
	for _, who := range []caller{nobody, eve, alice} {
		s.wantPull(who, "Never", ref, "Present")
		s.wantPull(who, "IfNotPresent", ref, "Present")
	}
	s.Restore()
	s.wantPull(eve, "IfNotPresent", ref, "Failed") // a registry can say
	nodetest.Want(t, "labels of another image", len(s.Labels(ref)), 0)

	// The proofs of the image that was pulled are those of its repository@digest.
	s.wantPull(alice, "Never", s.digest, "Present")
	s.wantPull(nobody, "Never", s.digest, "Failed")
	s.wantPull(alice, "Always", ref, "Pulled")
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(nobody, "Never", ref, "Failed")
}

// TestAccessToAnImportThatComesBack holds that a refusal ends the proofs of an
// image that was imported over, so that importing it back brings none back.
func TestAccessToAnImportThatComesBack(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	ref := s.ref(":1")
	s.wantPull(bob, "Always", ref, "Unchanged")
	s.waitForWrites()
	s.ImportOver(ref, nodetest.Image(2))
	s.g.deny(alice.user, s.repo, true)
	s.wantPull(alice, "Always", ref, "Failed")
	s.ImportOver(ref, nodetest.Image(1))
	s.wantPull(alice, "Never", ref, "Failed")
	s.wantPull(bob, "Never", ref, "Present")
}

// TestAccessToACopiedRecord holds that labels which are copied to a record of
// another name say nothing there, and that a refusal ends copied proofs for good.
func TestAccessToACopiedRecord(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	ref, open, strict, sibling := s.ref(":1"), s.g.name+"/private/copy:1", s.g.name+"/strict/copy:1", s.ref(":2")
	for _, to := range []string{open, strict, sibling} {
		s.TagLocal(ref, to)
		nodetest.Want(t, "annotations of "+to, len(s.Annotations(to)), 0)
	}
	// As any image of which nothing is known.
	s.wantPull(nobody, "Never", open, "Present")
	s.wantPull(alice, "Never", strict, "Failed")
	// The name is another, and its repository the same.
	s.wantPull(alice, "Never", sibling, "Present")
	s.wantPull(nobody, "Never", sibling, "Failed")

	s.TagLocal(ref, strict)
	s.g.deny(alice.user, s.repo, true)
	s.wantPull(alice, "Always", ref, "Failed")
	s.wantPull(alice, "Never", strict, "Failed")
	s.TagLocal(strict, ref) // back, with what is left
	s.wantPull(alice, "Never", ref, "Failed")
	s.wantPull(nobody, "Never", ref, "Failed")
}

// TestAccessFromEarlierVersions holds what becomes of labels that do not say which
// record they are for.
func TestAccessFromEarlierVersions(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	ref := s.ref(":1")
	change := func(labels map[string]string) {
		s.SetLabels(ref, labels)
		s.SetLabels(s.digest, labels)
	}
	// Those that tell of a check of this digest count as before.
	change(map[string]string{"record": ""})
	source := s.Annotations(ref)["pull-source"]
	if source == "" {
		t.Error("no source is shown")
	}
	s.g.Refuse()
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(nobody, "Never", ref, "Failed")

	// Of others nobody knows which image they are about: they prove nothing.
	good := s.Labels(ref)
	change(map[string]string{"verified-digest": ""})
	nodetest.Want(t, "annotations", len(s.Annotations(ref)), 0)
	for _, who := range []caller{nobody, alice} {
		s.wantPull(who, "Never", ref, "Failed")
		s.wantPull(who, "IfNotPresent", ref, "Failed")
	}
	// A registry says it anew, and the source stays unknown.
	s.Restore()
	s.wantPull(alice, "IfNotPresent", ref, "Unchanged")
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(nobody, "Never", ref, "Failed")
	nodetest.Eventually(t, "the labels say what they are for", func() bool {
		return s.Labels(s.digest)["record"] == s.Target(ref).String()+" "+s.digest
	})

	// Those of a check of another digest are about another image.
	for _, name := range []string{ref, s.digest} {
		none := map[string]string{}
		for label := range maps.Keys(s.Labels(name)) {
			none[label] = ""
		}
		s.SetLabels(name, none)
	}
	good["verified-digest"] = "sha256:" + good["verified-digest"][7+32:] + good["verified-digest"][7:7+32]
	change(good)
	nodetest.Want(t, "annotations", len(s.Annotations(ref)), 0)
	s.wantPull(nobody, "Never", ref, "Present")
}
