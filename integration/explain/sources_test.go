// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// mirrorStates are how a mirror and the registry behind it may be.
var mirrorStates = map[string]func(mirror, origin *resolvertest.Registry){
	"fine":        func(_, _ *resolvertest.Registry) {},
	"mirror down": func(mirror, _ *resolvertest.Registry) { mirror.Refuse() },
	"mirror lacks it": func(mirror, _ *resolvertest.Registry) {
		mirror.Status(resolvertest.Manifests, 404)
	},
	"origin down":    func(_, origin *resolvertest.Registry) { origin.Refuse() },
	"origin refuses": func(_, origin *resolvertest.Registry) { origin.Status(resolvertest.Manifests, 403) },
	"both down": func(mirror, origin *resolvertest.Registry) {
		mirror.Refuse()
		origin.Refuse()
	},
}

// sourceRules are lines of a rule; {m} and {o} stand for the hosts.
var sourceRules = map[string]string{
	"any":         "",
	"origin":      `resolve_from = "Origin"`,
	"from-origin": `allowed_sources = ["{o}"]`,
	"from-mirror": `allowed_sources = ["{m}"]`,
	"from-nobody": `allowed_sources = ["nobody.test"]`,
}

// TestSources is every rule about hosts, for images from a mirror that is old, in every
// state of both.
func TestSources(t *testing.T) {
	t.Parallel()
	for state, apply := range mirrorStates {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
			mirror := resolvertest.New(t)
			n.Serve("registry.test", n.Registry, mirror)
			hosts := strings.NewReplacer("{m}", mirror.Host(), "{o}", n.Registry.Host())
			rules := ""
			for name, lines := range sourceRules {
				rules += fmt.Sprintf("[[rule]]\nimages = ['registry.test/%s/**']\n%s\n", name, hosts.Replace(lines))
				for _, repo := range []string{"absent", "cached"} {
					n.Push(name+"/"+repo+":1", nodetest.Image(2))
					n.PushTo(mirror, name+"/"+repo+":1", nodetest.Image(1))
				}
				n.MustPull(nodetest.Named(name + "/cached:1"))
			}
			n.WriteRules("a.toml", rules)
			apply(mirror, n.Registry)
			for name := range sourceRules {
				for _, repo := range []string{"/absent:1", "/cached:1"} {
					for _, policy := range []string{"Never", "IfNotPresent", "IfDigestChanged", "Always"} {
						compare(n, question{nodetest.Named(name + repo), nobody, "default", []string{"policy", policy}}, n.Registry, mirror)
					}
				}
			}
		})
	}
}

// TestHosts shows the hosts in their order, and what is known of each.
func TestHosts(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	content, mirror := resolvertest.New(t), resolvertest.New(t)
	n.WriteHosts("registry.test", n.Server(n.Registry)+fmt.Sprintf("[host.%q]\ncapabilities = ['pull']\n", content.URL())+n.Mirror(mirror, ""))
	n.Push("app:1", nodetest.Image(1))
	q := question{ref: nodetest.Named("app:1"), namespace: "default"}
	hosts := func() string {
		t.Helper()
		var b strings.Builder
		for _, h := range q.explain(n, false).Hosts {
			fmt.Fprintf(&b, "%s %t %s %s %s\n", map[string]string{content.Host(): "content", mirror.Host(): "mirror", n.Registry.Host(): "origin"}[h.Host],
				h.Origin, h.State, h.Class, strings.Join(h.Capabilities, ","))
		}
		return b.String()
	}
	nodetest.Want(t, "hosts", hosts(), "content false content_only  pull\nmirror false asked  resolve,pull\norigin true asked  resolve,pull\n")
	mirror.Status(resolvertest.All, 503)
	nodetest.Eventually(t, "the mirror is in trouble", func() bool {
		x := q.explain(n, true)
		return x.Hosts[1].State == api.HostInTrouble
	})
	n.WriteRules("a.toml", fmt.Sprintf("[[rule]]\nimages = ['**']\nallowed_sources = [%q]\n", mirror.Host()))
	nodetest.Want(t, "hosts", hosts(), "content false left_out  pull\nmirror false in_trouble unavailable resolve,pull\norigin true left_out  resolve,pull\n")

	// A host that may not be asked for tags needs no question to fail.
	n.RemoveRules("a.toml")
	n.WriteHosts("registry.test", fmt.Sprintf("server = %q\ncapabilities = ['pull']\n", n.Registry.URL()))
	nodetest.Want(t, "outcome without a host to ask", q.explain(n, false).Outcome, "Failed")
	nodetest.Want(t, "reason without a host to ask", compare(n, q, n.Registry).Reason, "invalid")

	n.WriteHosts("broken.test", "server = 1\n") // no version of it was ever good
	q.ref = "broken.test/app:1"
	x := q.explain(n, false)
	nodetest.Want(t, "outcome", x.Outcome+" "+x.Reason, "Failed bad_hosts")
	if !strings.Contains(x.HostsError, "hosts.toml") || !strings.Contains(x.Sentence, "hosts.toml") || len(x.Hosts) != 0 {
		t.Errorf("%+v", x)
	}
	compare(n, q)
}

// TestSnapshotter explains a pod of another runtime handler.
func TestSnapshotter(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.NativeRuntime(), nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	x, err := api.Explain(t.Context(), n.Conn, api.ExplainRequest{Reference: ref, RuntimeHandler: "native", Ask: true})
	n.Must(err)
	mark := n.Mark()
	n.MustPull(ref, node.RuntimeHandler("native"))
	nodetest.Want(t, "outcome", x.Outcome, n.Decision(mark, ref).Outcome)
	n.WantRunnableBy("native", ref)
}

// TestSnapshotterOfTheDefaultRuntime explains a pod on a node whose default runtime has a snapshotter of its own, which
// is not that of the images.
func TestSnapshotterOfTheDefaultRuntime(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"),
		nodetest.Tables("[plugins.'io.containerd.cri.v1.runtime'.containerd]\n  default_runtime_name = 'native'\n"))
	n.Push("app:1", nodetest.Image(1))
	ref, hint := nodetest.Named("app:1"), node.Hint("policy", "IfDigestChanged")
	pod := n.RunPod(resolvertest.New(t))
	n.MustPull(ref, pod.Pulls(), hint)
	n.CollectGarbage() // of the layers
	compare := func(what string) {
		t.Helper()
		foreseen, mark := n.Explain(ref, hint), n.Mark()
		_, _ = n.Pull(ref, pod.Pulls(), hint)
		nodetest.Want(t, what, foreseen, n.Decision(mark, ref).Outcome)
	}
	compare("outcome")
	n.Registry.Refuse()
	compare("outcome in an outage")
}
