// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Made-up secrets push off no proof that the registry gave by a check which read the manifest for the caller's own credentials,
// be its HEAD open to all.
func TestMadeUpSecretsAndACheckThatShowedCredentialsForTheManifest(t *testing.T) {
	for what, headIsOpen := range map[string]bool{"HEAD wants credentials": false, "HEAD is open": true} {
		t.Run(what, func(t *testing.T) {
			n := nodetest.Prepare(t)
			n.WriteRules("10.toml", originForTeamA)
			n.Start()
			origin, mirror := resolvertest.New(t), resolvertest.New(t)
			defer origin.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				name, secret, _ := r.BasicAuth()
				known := name == alice.user && secret == alice.password || name == bob.user && secret == bob.password
				if !known && (!headIsOpen || r.Method != http.MethodHead) {
					w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})()
			n.WriteHosts("r.test", n.Server(origin)+n.Mirror(mirror, ""))
			n.Registry = origin
			ref, other := "r.test/private/app:1", "r.test/private/other:1"
			n.PushTo(origin, "private/app:1", nodetest.Image(1))
			n.PushTo(origin, "private/other:1", nodetest.Image(2))
			pull := func(who caller) error {
				_, err := n.Pull(ref, who.secret(), node.Pod("team-a", "a"))
				return err
			}
			n.Must(pull(bob))
			n.Must(pull(alice)) // a check of what is there, and its manifest for her own credentials
			if err := pull(eve); err == nil {
				t.Fatal("eve gets it")
			}
			n.WaitForWrites(other, bob.secret())
			n.PushTo(mirror, "private/app:1", nodetest.Image(1))
			for _, who := range madeUp(33) {
				_, err := n.Pull(ref, who.secret(), node.Pod("team-b", "b"), node.Hint("policy", "IfDigestChanged"))
				n.Must(err)
			}
			n.WaitForWrites(other, bob.secret())
			origin.Refuse()
			if err := pull(bob); err != nil {
				t.Errorf("bob has lost the registry's proof: %v", err)
			}
			if err := pull(alice); err != nil {
				t.Errorf("alice has lost the registry's proof: %v", err)
			}
		})
	}
}
