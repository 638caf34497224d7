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

// A pull by digest without the transfer service, as of ctr --local, leaves who may have the image, and where it came from, since
// it finds all of it.
func TestLocalPullByDigestEndsNoProof(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.digest, "Pulled")
	s.waitForWrites()
	source := n.Labels(s.digest)["pull-source"]
	hosts := config.ConfigureHosts(t.Context(), config.HostOptions{
		HostDir:     config.HostDirFromRoot(n.HostsDirs()[0]),
		Credentials: func(string) (string, string, error) { return bob.user, bob.password, nil },
	})
	resolver := docker.NewResolver(docker.ResolverOptions{Hosts: hosts})
	_, err := n.Client.Pull(namespaces.WithNamespace(t.Context(), "k8s.io"), s.digest, containerd.WithResolver(resolver))
	n.Must(err)
	nodetest.Want(t, "pull-source", n.Labels(s.digest)["pull-source"], source)
	s.wantPull(nobody, "Never", s.digest, "Failed")
	s.wantPull(bob, "Never", s.digest, "Failed")
	s.wantPull(alice, "Never", s.digest, "Present")
}
