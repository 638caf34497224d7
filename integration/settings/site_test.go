// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// site is a node with a setting. Its registry, and a mirror in front of it, want
// alice's credentials. Under a rule for **/strict the mirror is forbidden.
type site struct {
	*nodetest.Node
	name   string // of the registry, in references
	mirror *resolvertest.Registry
	// hosts says that the mirror is one of hosts.toml, and that there can be
	// more of these files.
	hosts bool
}

// alice is who pulls.
var alice = node.Credentials("alice", "alice's secret")

// newSite starts a node with that setting, and the mirror in hosts.toml.
func newSite(t *testing.T, setting node.Setting) *site {
	t.Helper()
	origin, mirror := newRegistry(t), newRegistry(t)
	s := &site{Node: start(t, origin, nodetest.Setting(setting)), name: "registry.test", mirror: mirror, hosts: true}
	s.Registry = origin
	s.Serve(s.name, origin, mirror)
	return s
}

// newSiteWithMirrors starts a node whose mirror is one of CRI's deprecated
// registry.mirrors.
func newSiteWithMirrors(t *testing.T) *site {
	t.Helper()
	origin, mirror := newRegistry(t), newRegistry(t)
	tables := fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.registry.mirrors.'%s']
  endpoint = ['%s']
[plugins.'io.containerd.cri.v1.images'.registry.auths.'https://elsewhere.test']
  username = 'somebody'
  password = 'of the node'
`, origin.Host(), mirror.URL())
	s := &site{
		Node: start(t, origin, nodetest.WithoutHostsDirectories(), nodetest.Tables(tables)),
		name: origin.Host(), mirror: mirror,
	}
	s.Registry = origin
	return s
}

func newRegistry(t *testing.T) *resolvertest.Registry {
	t.Helper()
	return resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "alice's secret", "bob": "bob's secret"}))
}

func start(t *testing.T, origin *resolvertest.Registry, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := nodetest.Prepare(t, append([]nodetest.Option{
		nodetest.Section(nodetest.IfDigestChanged), nodetest.Containers(t), nodetest.NativeRuntime(),
	}, opts...)...)
	n.WriteRules("strict.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/strict\", \"**/strict/*\"]\npolicy = \"Always\"\nresolve_from = \"Origin\"\nallowed_sources = [%q]\n", origin.Host()))
	n.Start()
	return n
}

// in returns the site for a part of the test.
func (s *site) in(t *testing.T) *site {
	part := *s
	part.Node = s.In(t)
	return &part
}

// ref names "repository:tag" of the registry.
func (s *site) ref(name string) string { return s.name + "/" + name }

// both pushes an image to the registry and the mirror.
func (s *site) both(name string, img resolvertest.Pushable) digest.Digest {
	s.T.Helper()
	s.PushTo(s.mirror, name, img)
	return s.Push(name, img)
}

// forget lets both registries forget what they were asked.
func (s *site) forget() {
	s.Registry.Forget()
	s.mirror.Forget()
}

// wantMirrorNotAsked fails the test where the mirror was asked anything.
func (s *site) wantMirrorNotAsked(when string) {
	s.T.Helper()
	for _, r := range s.mirror.Requests() {
		if resolvertest.Probe(r) {
			continue // of a request before, which was allowed
		}
		s.T.Errorf("%s: the forbidden mirror was asked: %s %s, shown credentials: %v", when, r.Method, r.Path, r.Authorized)
	}
}

// wantSources compares what the record of an image says of its sources.
func (s *site) wantSources(name, source, content string) {
	s.T.Helper()
	labels := s.Labels(s.ref(name))
	nodetest.Want(s.T, "pull-source of "+name, labels["pull-source"], source)
	nodetest.Want(s.T, "content-sources of "+name, labels["content-sources"], content)
	nodetest.Want(s.T, "unknown-sources of "+name, labels["unknown-sources"], "")
}
