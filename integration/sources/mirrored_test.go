// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// mirrored is a node whose registry.test has a mirror in front of it.
type mirrored struct {
	*nodetest.Node
	mirror *resolvertest.Registry
}

// newMirrored starts a node and both registries.
func newMirrored(t *testing.T, opts ...nodetest.Option) *mirrored {
	t.Helper()
	return mirroredOn(nodetest.New(t, opts...))
}

// mirroredOn puts a new mirror in front of a node's registry.
func mirroredOn(n *nodetest.Node) *mirrored {
	n.T.Helper()
	m := &mirrored{Node: n, mirror: resolvertest.New(n.T)}
	m.withMirror()
	return m
}

// newPrivate is newMirrored where registry and mirror let in those users alone, and strict pods may have what is the
// registry's. as are the credentials of a user.
func newPrivate(t *testing.T, users []string, opts ...nodetest.Option) (m *mirrored, as func(user string) node.PullOption) {
	t.Helper()
	passwords := map[string]string{}
	for _, user := range users {
		passwords[user] = "password-of-" + user
	}
	m = &mirrored{nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithBasicAuth(passwords)), opts...), resolvertest.New(t, resolvertest.WithBasicAuth(passwords))}
	m.withMirror()
	m.allowRegistry()
	return m, func(user string) node.PullOption { return node.Credentials(user, passwords[user]) }
}

func (m *mirrored) withMirror() {
	m.T.Helper()
	m.Serve("registry.test", m.Registry, m.mirror)
}

func (m *mirrored) withoutMirror() {
	m.T.Helper()
	m.Serve("registry.test", m.Registry)
}

// both pushes an image to the registry and the mirror.
func (m *mirrored) both(ref string, img resolvertest.Pushable) digest.Digest {
	m.T.Helper()
	m.Push(ref, img)
	return m.PushTo(m.mirror, ref, img)
}

// wantSources compares what the record of an image, and what CRI, say of its
// sources.
func (m *mirrored) wantSources(what, ref, source, content string) {
	m.T.Helper()
	labels := m.Labels(ref)
	nodetest.Want(m.T, what+": pull-source", labels["pull-source"], source)
	nodetest.Want(m.T, what+": content-sources", labels["content-sources"], content)
	shown := m.Annotations(ref)
	nodetest.Want(m.T, what+": pull-source of CRI", shown["pull-source"], source)
	nodetest.Want(m.T, what+": content-sources of CRI", shown["content-sources"], content)
}

// allSources returns every host that a record names as a source.
func (m *mirrored) allSources(ref string) []string {
	m.T.Helper()
	labels := m.Labels(ref)
	host, _, _ := strings.Cut(labels["pull-source"], "/")
	return append(strings.Split(labels["content-sources"], ","), host)
}
