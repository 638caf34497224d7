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

// TestMadeUpSecretsInPullsAtAMirrorThatKnowsTheNode holds that secrets which no host has ever looked at push
// off no proof that the registry gave for credentials, where each pulls another tag of the same image from a
// mirror that is shown a header of hosts.toml.
func TestMadeUpSecretsInPullsAtAMirrorThatKnowsTheNode(t *testing.T) {
	t.Parallel()
	for what, header := range map[string]string{"open": "", "header": "header = { X-Pass = \"" + word + "\" }\n"} {
		t.Run(what, func(t *testing.T) {
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
			n.WriteHosts(m.g.name, n.Server(m.g.Registry)+n.Mirror(m.mirror, header))
			s := m.scene("private/app", 1)
			pull := func() error {
				_, err := n.Pull(s.digest, alice.secret(), node.Pod("team-a", "a"))
				return err
			}
			n.Must(pull())
			s.waitForWrites()
			for i, who := range madeUp(33) {
				tag := fmt.Sprintf(":t%d", i)
				m.PushTo(m.mirror, "private/app"+tag, nodetest.Image(1))
				_, err := n.Pull(s.ref(tag), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
				n.Must(err)
			}
			s.waitForWrites()
			m.g.Refuse()
			if err := pull(); err != nil {
				t.Errorf("alice has lost the registry's proof: %v", err)
			}
		})
	}
}
