// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
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

// originForTeamA has the namespace team-a believe the registry alone.
const originForTeamA = `
[[rule]]
images = ["r.test/**"]
namespaces = ["team-a"]
policy = "IfDigestChanged"
resolve_from = "Origin"
hints = "Tighten"
`

// newMirrorForOthers returns a registry that wants credentials, the only one that the rule of the namespace
// team-a believes, and an open mirror of it, with these lines in hosts.toml.
func newMirrorForOthers(t *testing.T, lines string) openMirror {
	t.Helper()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", originForTeamA)
	n.Start()
	m := openMirror{n, newGuarded(t, resolvertest.WithTokenAuth, "r.test"), resolvertest.New(t)}
	n.WriteHosts(m.g.name, n.Server(m.g.Registry)+n.Mirror(m.mirror, lines))
	return m
}

// keepsProof holds that the registry's proof for alice in the namespace team-a is there after others have pulled.
func (m openMirror) keepsProof(t *testing.T, s *scene, ref string, others func()) {
	t.Helper()
	pull := func() error {
		_, err := m.Pull(ref, alice.secret(), node.Pod("team-a", "a"))
		return err
	}
	m.Must(pull())
	s.waitForWrites()
	others()
	s.waitForWrites()
	m.g.Refuse()
	if err := pull(); err != nil {
		t.Errorf("alice has lost the registry's proof: %v", err)
	}
}

// TestMadeUpSecretsAtAnOpenMirror holds that secrets which no host has ever looked at push off no
// proof that the registry gave to a tenant whose rule believes the registry alone.
func TestMadeUpSecretsAtAnOpenMirror(t *testing.T) {
	t.Parallel()
	m := newMirrorForOthers(t, "")
	s := m.scene("private/app", 1)
	m.keepsProof(t, s, s.ref(":1"), func() {
		for _, who := range madeUp(33) {
			_, err := m.Pull(s.ref(":1"), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
			m.Must(err)
		}
	})
}

// TestMadeUpSecretsInPullsAtAMirrorThatKnowsTheNode holds that such secrets push off no such proof
// either where each pulls another tag of the same image, also from a mirror that is shown a header of hosts.toml.
func TestMadeUpSecretsInPullsAtAMirrorThatKnowsTheNode(t *testing.T) {
	t.Parallel()
	for what, header := range map[string]string{
		"open": "", "header": `header = { X-Pass = "` + word + `" }`, "authorization": `header = { Authorization = "Basic bm9kZTp3b3Jk" }`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMirrorForOthers(t, header+"\n")
			s := m.scene("private/app", 1)
			m.keepsProof(t, s, s.digest, func() {
				for i, who := range madeUp(33) {
					tag := fmt.Sprintf(":t%d", i)
					m.PushTo(m.mirror, "private/app"+tag, nodetest.Image(1))
					_, err := m.Pull(s.ref(tag), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
					m.Must(err)
				}
			})
		})
	}
}

// TestMadeUpSecretsAtAMirrorThatRedirects has an open mirror redirect to where anybody gets a token, or with a
// user in the URL: no host has looked at the secrets then, either.
func TestMadeUpSecretsAtAMirrorThatRedirects(t *testing.T) {
	t.Parallel()
	for what, user := range map[string]string{"token for everybody": "", "user of the URL": "store:key-of-the-store@"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMirrorForOthers(t, "")
			s := m.scene("private/app", 1)
			behind := resolvertest.New(t)
			if user == "" {
				behind = resolvertest.New(t, resolvertest.WithTokenAuth(nil))
				behind.Allow(func(string, string) bool { return true })
			}
			m.PushTo(behind, "private/app:1", nodetest.Image(1))
			m.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Path == "/v2/" {
					next.ServeHTTP(w, r)
					return
				}
				http.Redirect(w, r, strings.Replace(behind.URL(), "://", "://"+user, 1)+r.URL.Path, http.StatusTemporaryRedirect)
			})
			m.keepsProof(t, s, s.ref(":1"), func() {
				for _, who := range madeUp(33) {
					_, err := m.Pull(s.ref(":1"), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
					m.Must(err)
				}
			})
		})
	}
}

// TestMadeUpSecretsOfBeforeARestart holds that proofs which made-up secrets got before a restart keep
// nobody's new one off the image.
func TestMadeUpSecretsOfBeforeARestart(t *testing.T) {
	t.Parallel()
	m := newMirrorForOthers(t, `header = { X-Pass = "`+word+`" }`+"\n")
	s := m.scene("private/app", 1)
	pull := func(who caller, policy string) error {
		_, err := m.Pull(s.ref(":1"), who.secret(), node.Pod("team-b", "b"), node.Hint("policy", policy))
		return err
	}
	for _, who := range madeUp(33) {
		m.Must(pull(who, "IfDigestChanged"))
	}
	s.waitForWrites()
	m.Restart()
	m.Must(pull(alice, "IfDigestChanged"))
	s.waitForWrites()
	if err := pull(alice, "Never"); err != nil {
		t.Errorf("alice has no proof after her check: %v", err)
	}
	m.g.Refuse()
	m.mirror.Refuse()
	if err := pull(alice, "IfDigestChanged"); err != nil {
		t.Errorf("alice has no fallback: %v", err)
	}
}
