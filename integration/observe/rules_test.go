// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// refusing are rules that would refuse every image, and the reasons that are told.
var refusing = []struct {
	name, directives string
	hints            []string
	reason           string
	words            []string
}{
	{"never", `policy = "Never"`, nil, "absent", []string{"the policy Never asks no registry"}},
	{"hint", "", []string{"policy", "Sometimes"}, "bad_hint", []string{"pullwarden.io/policy", "Sometimes"}},
	{"sources", `allowed_sources = ["nobody.test"]`, nil, "source", []string{"nobody.test"}},
	{"hosts", "", nil, "bad_hosts", nil},
	{"strict", "policy = 'Never'\naccess = 'Strict'", nil, "unproved", nil},
	{"labels", "policy = 'Never'", nil, "unproved", nil},
	{"timeout", "verify_timeout = '1ms'", nil, "unreachable", []string{"check: "}},
}

// TestNothingIsRefused pulls under rules that would refuse everything, by the transfer
// service and without it.
func TestNothingIsRefused(t *testing.T) {
	t.Parallel()
	for name, images := range map[string][]string{"transfer": nil, "local": {"use_local_image_pull = true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.CRIImages(images...))
			registry := n.Registry.Host() // an address of the loopback, which containerd pulls from by plain HTTP
			var rules strings.Builder
			for _, tt := range refusing {
				rules.WriteString("[[rule]]\nimages = ['" + registry + "/" + tt.name + "']\n" + observing + "\n" + tt.directives + "\n")
				n.Push(tt.name+":1", nodetest.Image(1))
			}
			n.WriteRules("a.toml", rules.String())
			n.Registry.SetDelay(5 * time.Millisecond)
			for _, tt := range refusing {
				t.Run(tt.name, func(t *testing.T) {
					n := n.In(t)
					if tt.name == "hosts" {
						n.WriteHosts(registry, "this is no TOML")
						defer n.WriteHosts(registry, n.Server(n.Registry))
					}
					ref := registry + "/" + tt.name + ":1"
					prepareRefusal(n, tt.name, ref)
					got := mustObserve(n, func() { prepareRefusal(n, tt.name, ref) }, ref, "Failed", tt.reason, node.Hint(tt.hints...))
					if !strings.HasPrefix(got.Message, "pullwarden: would have been Failed ("+tt.reason+") under ") {
						t.Errorf("the message is %q", got.Message)
					}
					nodetest.Want(t, "level", got.Level, "warning")
					for _, word := range tt.words {
						if !strings.Contains(got.Error, word) {
							t.Errorf("%q is not in %q", word, got.Error)
						}
					}
					n.WantRunnable(ref)
				})
			}
		})
	}
}

// prepareRefusal removes an image, or brings one that nobody has proved access to, with
// labels that nobody can read.
func prepareRefusal(n *nodetest.Node, name, ref string) {
	n.T.Helper()
	n.Remove(ref)
	if name == "strict" || name == "labels" {
		n.Import(ref, nodetest.Image(2))
	}
	if name == "labels" {
		n.SetLabels(ref, map[string]string{"verified-digest": "sha256:nonsense", "verified-at": "yesterday", "access.anonymous": "x"})
	}
}

// TestRules holds that a rule is observed by itself: others are enforced, for other
// images and for other namespaces.
func TestRules(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "Never"`))
	n.WriteRules("a.toml", `
[[rule]]
images = ["registry.test/tried"]
policy = "Never"
mode = "Observe"
[[rule]]
images = ["registry.test/shared"]
namespaces = ["tried"]
mode = "Observe"
`)
	for _, tag := range []string{"tried:1", "other:1", "shared:1"} {
		n.Push(tag, nodetest.Image(1))
	}
	other := node.Pod("other", "pod")
	mustEnforce(n, nodetest.Named("other:1"), "Failed", "absent")
	mustEnforce(n, nodetest.Named("shared:1"), "Failed", "absent", other)
	got := mustObserve(n, removed(n, nodetest.Named("tried:1")), nodetest.Named("tried:1"), "Failed", "absent")
	nodetest.Want(t, "observed by", got.Observed, "mode=Observe(rule a.toml#1)")
	mustObserve(n, removed(n, nodetest.Named("shared:1")), nodetest.Named("shared:1"), "Failed", "absent", node.Pod("tried", "pod"))

	n.WriteRules("a.toml", "[[rule]]\nimages = ['registry.test/other']\nmode = 'Enforce'\n")
	n.Restart(nodetest.Section(observing))
	mustEnforce(n, nodetest.Named("other:1"), "Failed", "absent")
	n.Remove(nodetest.Named("tried:1"))
	got = mustObserve(n, removed(n, nodetest.Named("tried:1")), nodetest.Named("tried:1"), "Failed", "absent")
	nodetest.Want(t, "observed by", got.Observed, "mode=Observe(section)")
}

// TestSwitch goes from Observe to Enforce and back without a restart: what was observed
// holds when it is enforced.
func TestSwitch(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			wantSwitch(nodetest.New(t, nodetest.CRIImages(images)))
		})
	}
}

func wantSwitch(n *nodetest.Node) {
	n.T.Helper()
	ref := nodetest.Named("app:1")
	rule := func(mode, directives string) {
		n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = '"+mode+"'\n"+directives)
	}
	n.Push("app:1", nodetest.Image(1))
	rule("Observe", "policy = 'IfDigestChanged'\n")
	mustObserve(n, removed(n, ref), ref, "Pulled", "absent")
	mustObserve(n, nil, ref, "Unchanged", "same_digest")
	seed := int64(1)
	change := func() { seed++; n.Push("app:1", nodetest.Image(seed)) }
	change()
	got := mustObserve(n, change, ref, "Pulled", "changed")
	nodetest.Want(n.T, "digest", got.Digest, n.Target(ref).String())
	if !strings.HasPrefix(got.Message, "pullwarden: would have been Pulled (changed) under policy=") {
		n.T.Errorf("the message is %q", got.Message)
	}
	rule("Observe", "policy = 'IfDigestChanged'\nmax_age = '1h'\n")
	mustObserve(n, nil, ref, "Fresh", "max_age")

	rule("Enforce", "policy = 'IfDigestChanged'\nmax_age = '1h'\n")
	n.Registry.Forget()
	mustEnforce(n, ref, "Fresh", "max_age")
	rule("Enforce", "policy = 'IfNotPresent'\n")
	mustEnforce(n, ref, "Present", "policy")
	nodetest.Want(n.T, "requests", n.Requests(), "")
	rule("Observe", "policy = 'Never'\n")
	mustObserve(n, nil, ref, "Present", "policy")
	if n.Registry.Count(resolvertest.Of("HEAD", resolvertest.Manifests)) == 0 {
		n.T.Error("containerd's own pull has asked nobody")
	}
}

// TestSources holds that the source of a pull is recorded by the transfer service, and
// not where containerd pulls without it: then it is not taken for an allowed one.
func TestSources(t *testing.T) {
	t.Parallel()
	unknown := [2]string{"Pulled", "source"}
	recorded := [2]string{"Unchanged", "same_digest"}
	if !byTransferService(t) {
		recorded = unknown
	}
	for images, want := range map[string][2]string{"use_local_image_pull = false": recorded, "use_local_image_pull = true": unknown} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.CRIImages(images))
			n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\n"+observing+"\nallowed_sources = ['"+n.Registry.Host()+"']\n")
			n.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			mustObserve(n, removed(n, ref), ref, "Pulled", "absent")
			mustObserve(n, nil, ref, want[0], want[1])
		})
	}
}
