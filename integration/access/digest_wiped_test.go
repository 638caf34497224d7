// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Pulls by digest that wipe the labels of that record, by stock containerd or by ctr --local, take nobody's proof away and
// open nothing as long as a tag of the repository stands for the image.
func TestPullsByDigestThatWipeItsRecord(t *testing.T) {
	t.Parallel()
	for what, wipe := range map[string]func(n *nodetest.Node, ref string){
		"stock containerd": func(n *nodetest.Node, ref string) {
			n.Restart(nodetest.OnlySection("enabled = false"))
			n.MustPull(ref, alice.secret())
			n.Restart(nodetest.OnlySection("enabled = true"))
		},
		"ctr images pull --local": func(n *nodetest.Node, ref string) {
			hosts := config.ConfigureHosts(t.Context(), config.HostOptions{
				HostDir:     config.HostDirFromRoot(n.HostsDirs()[0]),
				Credentials: func(string) (string, string, error) { return alice.user, alice.password, nil },
			})
			resolver := docker.NewResolver(docker.ResolverOptions{Hosts: hosts})
			_, err := n.Client.Pull(namespaces.WithNamespace(t.Context(), "k8s.io"), ref, containerd.WithResolver(resolver))
			n.Must(err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t)
			g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.digest = s.push("1", nodetest.Image(1))
			s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
			s.waitForWrites()
			wipe(n, s.digest)
			if labels := n.Labels(s.digest); labels["verified-digest"] != "" {
				t.Fatalf("nothing was wiped: %v", labels)
			}
			for _, ref := range []string{s.digest, s.ref(":1")} {
				s.wantPull(nobody, "Never", ref, "Failed")
				s.wantPull(alice, "Never", ref, "Present")
			}
		})
	}
}
