// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestUserNamesWithoutPasswords holds that user names without a password, which no host and no token
// server is ever shown, push off no proof that the registry gave for a password.
func TestUserNamesWithoutPasswords(t *testing.T) {
	t.Parallel()
	for what, auth := range map[string]func(i int) node.PullOption{
		"user name alone": func(i int) node.PullOption { return node.Credentials(fmt.Sprintf("nobody%02d", i), "") },
		"for another registry": func(i int) node.PullOption {
			return node.Auth(&runtime.AuthConfig{Username: fmt.Sprintf("nobody%02d", i), Password: "made-up-secret", ServerAddress: "https://elsewhere.test"})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t)
			g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "public/app")
			s.Push("public/app:1", nodetest.Image(1))
			ref := "r.test/public/app:1"
			pull := func(who node.PullOption) error {
				_, err := n.Pull(ref, who, node.Hint("policy", "IfDigestChanged"))
				return err
			}
			n.Must(pull(alice.secret()))
			s.waitForWrites()
			for i := range 33 {
				n.Must(pull(auth(i)))
			}
			s.waitForWrites()
			g.Refuse()
			if err := pull(alice.secret()); err != nil {
				t.Errorf("alice has lost the registry's proof: %v", err)
			}
		})
	}
}

// TestUserNamesWithoutPasswordsAtAnOpenMirror holds that they push off no proof of a private image either,
// which its registry gave, by a mirror whose token server has tokens for everybody.
func TestUserNamesWithoutPasswordsAtAnOpenMirror(t *testing.T) {
	t.Parallel()
	m := newMirrorForOthers(t, "")
	m.mirror = resolvertest.New(t, resolvertest.WithTokenAuth(nil))
	m.mirror.Allow(func(string, string) bool { return true })
	m.WriteHosts(m.g.name, m.Server(m.g.Registry)+m.Mirror(m.mirror, ""))
	s := m.scene("private/app", 1)
	m.keepsProof(t, s, s.ref(":1"), func() {
		for i := range 33 {
			_, err := m.Pull(s.ref(":1"), node.Credentials(fmt.Sprintf("nobody%02d", i), ""), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
			m.Must(err)
		}
	})
}
