// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// headAlone answers everybody's HEAD, and gives content to nobody.
func headAlone(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method != http.MethodHead && r.URL.Path != "/v2/" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	next.ServeHTTP(w, r)
}

// TestRefusedByTheHostThatGaveTheProof holds that a caller whose only proof ends by a refusal has none
// in that very request: the next host answers everybody's HEAD, and gives the manifest to nobody.
func TestRefusedByTheHostThatGaveTheProof(t *testing.T) {
	t.Parallel()
	for what, byRegistry := range map[string]bool{"the registry, and a mirror behind it": true, "a mirror, and another one": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
			guarded := resolvertest.WithBasicAuth(map[string]string{user: password})
			n.Registry = resolvertest.New(t, guarded)
			giver, second, name := n.Registry, resolvertest.New(t), n.Registry.Host()
			if byRegistry {
				n.WriteHosts(name, n.Server(n.Registry)+n.Mirror(n.Registry, "")+n.Mirror(second, ""))
			} else {
				giver, name = resolvertest.New(t, guarded), "registry.test"
				n.Serve(name, n.Registry, giver, second)
				n.Registry.Status(resolvertest.All, http.StatusServiceUnavailable)
			}
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\n")
			n.Start()
			img := resolvertest.Image(79900, 2, 500)
			n.PushTo(giver, "image:1", img)
			n.PushTo(second, "image:1", img)
			second.Script(headAlone)
			ref := name + "/image:1"
			n.MustPull(ref, alice())
			giver.Allow(func(string, string) bool { return false })
			if _, err := n.Pull(ref, alice(), node.Hint("policy", "Always")); err == nil {
				t.Error("all hosts refuse alice the manifest, and she is given the image")
			}
			wantRefused(n, ref, alice(), "team-a")
		})
	}
}

// TestMirrorRefusesAndTheRegistryAnswersAll holds that a mirror ends what it gave by refusing that, to
// everybody and to a caller, though the registry behind it answers everybody's HEAD.
func TestMirrorRefusesAndTheRegistryAnswersAll(t *testing.T) {
	t.Parallel()
	for what, who := range map[string]node.PullOption{"everybody": node.Auth(nil), "a caller": alice()} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var options []resolvertest.Option
			if what != "everybody" {
				options = append(options, resolvertest.WithBasicAuth(map[string]string{user: password}))
			}
			n, mirror := mirrored(t, "[[rule]]\nimages = [\"**\"]\n", resolvertest.New(t, options...), 79950)
			n.Registry.Script(headAlone)
			ref, team := nodetest.Named("image:1"), node.Pod("team-a", "pod")
			n.MustPull(ref, who, team)
			mirror.Status(resolvertest.All, http.StatusForbidden)
			if _, err := n.Pull(ref, who, team, node.Hint("policy", "Always")); err == nil {
				t.Error("both hosts refuse the manifest, and the image is given")
			}
			wantRefused(n, ref, who, "team-a")
		})
	}
}
