// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// madeUp are secrets that nobody has ever given out.
func madeUp(n int) (all []caller) {
	for i := range n {
		all = append(all, caller{fmt.Sprintf("nobody%02d", i), fmt.Sprintf("made-up-secret-%02d", i)})
	}
	return all
}

// TestMadeUpSecretsAtAnOpenRegistry holds that secrets which no host has ever looked at push off no
// proof of everybody's: the image stays everybody's by Never, and while the registry is down.
func TestMadeUpSecretsAtAnOpenRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	byDigest := n.Push("public/app:1", nodetest.Image(1))
	ref := nodetest.Named("public/app:1")
	n.MustPull(ref)
	n.MustPull(ref, alice.secret(), node.Hint("policy", "Never"))
	for _, who := range madeUp(33) {
		n.MustPull(ref, who.secret(), node.Hint("policy", "IfDigestChanged"))
	}
	n.Push("public/other:1", nodetest.Image(2))
	n.WaitForWrites(nodetest.Named("public/other:1"))
	for _, who := range []caller{nobody, alice} {
		for _, r := range []string{ref, nodetest.Named("public/app@" + byDigest.String())} {
			if _, err := n.Pull(r, who.secret(), node.Hint("policy", "Never")); err != nil {
				t.Errorf("%v has lost the proof of everybody: %v", who, err)
			}
		}
	}
	n.Registry.Refuse()
	if _, err := n.Pull(ref, node.Hint("policy", "IfDigestChanged")); err != nil {
		t.Errorf("no fallback: %v", err)
	}
}

// TestMadeUpSecretsAtAnOpenMirror holds that secrets which no host has ever looked at push off no
// proof that the registry gave to a tenant whose rule believes the registry alone.
func TestMadeUpSecretsAtAnOpenMirror(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", `
[[rule]]
images = ["r.test/**"]
namespaces = ["team-a"]
policy = "IfDigestChanged"
resolve_from = "Origin"
hints = "Tighten"
`)
	n.Start()
	m := openMirror{n, newGuarded(t, resolvertest.WithTokenAuth, "r.test"), resolvertest.New(t)}
	n.Serve(m.g.name, m.g.Registry, m.mirror)
	s := m.scene("private/app", 1)
	pull := func() error {
		_, err := n.Pull(s.ref(":1"), alice.secret(), node.Pod("team-a", "a"))
		return err
	}
	n.Must(pull())
	s.waitForWrites()
	for _, who := range madeUp(33) {
		_, err := n.Pull(s.ref(":1"), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
		n.Must(err)
	}
	s.waitForWrites()
	m.g.Refuse()
	if err := pull(); err != nil {
		t.Errorf("alice has lost the registry's proof: %v", err)
	}
}
