// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const identityToken = "identity-token:0123456789+/=<\"\\>"

// embedded are credentials in an address.
var embedded = caller{"embedded", "password-in-an-address"}

func newSecrets() *traces {
	var secrets traces
	for _, who := range []caller{alice, bob, eve, wrong, embedded} {
		secrets.addCaller(who)
	}
	secrets.add("the identity token", identityToken)
	secrets.add("what is malformed", "malformed: "+bob.password)
	return &secrets
}

// secretForms are the forms in which a request can have credentials.
func secretForms() map[string]node.PullOption {
	b64 := base64.StdEncoding.EncodeToString
	return map[string]node.PullOption{
		"alice": alice.secret(), "wrong": wrong.secret(), "eve": eve.secret(), "nobody": nobody.secret(), "bob": bob.secret(),
		"combined":        node.Auth(&runtimeapi.AuthConfig{Auth: b64([]byte(alice.user + ":" + alice.password))}),
		"identity token":  node.Auth(&runtimeapi.AuthConfig{IdentityToken: identityToken}),
		"registry token":  node.Auth(&runtimeapi.AuthConfig{RegistryToken: identityToken}),
		"malformed":       node.Auth(&runtimeapi.AuthConfig{Auth: "malformed: " + bob.password}),
		"no colon":        node.Auth(&runtimeapi.AuthConfig{Auth: b64([]byte(bob.password))}),
		"another host":    node.Auth(&runtimeapi.AuthConfig{Username: bob.user, Password: bob.password, ServerAddress: "https://other.test"}),
		"host with login": node.Auth(&runtimeapi.AuthConfig{Username: bob.user, Password: bob.password, ServerAddress: "https://" + embedded.user + ":" + embedded.password + "@r401.test:x"}),
	}
}

// pullWithEchoes pulls in every form while the registry repeats what it was
// sent, in every way of echoes. It returns the errors.
func pullWithEchoes(t *testing.T, n *nodetest.Node, g *guarded) (told []string) {
	t.Helper()
	for i, fault := range echoes() {
		s := g.scene(t, n, fmt.Sprintf("private/app%d", i))
		byDigest := s.push("1", nodetest.Image(int64(i)))
		s.MustPull(s.ref(":1"), alice.secret()) // so that there is something to reuse
		undo := fault.script(g)
		for who, secret := range secretForms() {
			if i > 0 && who != "alice" && who != "wrong" && who != "identity token" {
				continue // with the first fault, which is none, everybody pulls
			}
			for _, ref := range []string{s.ref(":1"), byDigest}[:max(1, 2-i)] {
				_, err := s.Pull(ref, secret, node.Hint("policy", "IfDigestChanged", "on-unreachable", "Fail"))
				told = append(told, fmt.Sprintf("%s, %s, %s: %v", fault.what, who, ref, err))
			}
		}
		s.push("2", nodetest.Image(int64(i+1000)))
		_, err := s.Pull(s.ref(":2"), alice.secret()) // the content is asked for, too
		told = append(told, fmt.Sprintf("%s, alice, content: %v", fault.what, err))
		undo()
		s.Restore()
	}
	return told
}

// TestAccessTellsNoSecret pulls in every way that works and that fails, from
// registries that repeat what they were sent, and looks for the secrets in
// everything that the daemon tells and keeps.
func TestAccessTellsNoSecret(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNoSecretTold(t, newGuarded(t, kind, "r"+name+".test"), name == "401")
		})
	}
}

func wantNoSecretTold(t *testing.T, g *guarded, hasTokens bool) {
	t.Helper()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Start(t, nodetest.MetricsAt(metrics), nodetest.AuditLog("audit.log"))
	secrets := newSecrets()
	g.serve(n)
	secrets.watchTokens(g)
	told := pullWithEchoes(t, n, g)
	all := everythingTold(n, metrics)
	all["errors"] = []byte(strings.Join(told, "\n"))
	for where, b := range all {
		for _, what := range secrets.in(b) {
			t.Errorf("%s has %s", where, what)
		}
	}
	basic := base64.StdEncoding.EncodeToString([]byte(bob.user + ":" + bob.password))
	seen := []string{"you sent " + encode(alice.password), "Basic " + basic}
	if hasTokens {
		seen = append(seen, "x."+someKey(secrets.tokens)+`"`)
	}
	for _, told := range seen {
		if len(secrets.in([]byte(told))) == 0 {
			t.Errorf("it would not be seen that somebody tells %s", told)
		}
	}
	if !bytes.Contains(all["metrics"], []byte("pullwarden_decisions_total")) || !bytes.Contains(all["image records"], []byte("pullwarden.io/access.")) || len(all) < 10 || hasTokens != (len(secrets.tokens) > 0) {
		t.Error("there is nothing to look at")
	}
}

func someKey(m map[string]bool) string {
	for key := range m {
		return key
	}
	return ""
}
