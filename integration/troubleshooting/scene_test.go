// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package troubleshooting

import (
	"slices"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	repository = "team-a/app"
	image      = repository + ":1"
	password   = "correct horse"
)

// scene is a registry of its own, behind a name of its own on the node.
type scene struct {
	*nodetest.Node
	name   string
	mirror *resolvertest.Registry // nil = there is none
}

func newScene(t *testing.T, n *nodetest.Node, name string, opts ...resolvertest.Option) *scene {
	t.Helper()
	s := &scene{Node: n.In(t), name: name + ".test"}
	s.Registry = resolvertest.New(t, append(slices.Clone(opts), resolvertest.WithTLS())...)
	s.Serve(s.name, s.Registry)
	return s
}

func (s *scene) ref() string { return s.name + "/" + image }

// mirrored puts a mirror in front of the registry.
func (s *scene) mirrored() {
	s.T.Helper()
	s.mirror = resolvertest.New(s.T, resolvertest.WithTLS())
	s.Serve(s.name, s.Registry, s.mirror)
}

// cached pushes an image and pulls it.
func (s *scene) cached(opts ...node.PullOption) {
	s.T.Helper()
	s.Push(image, nodetest.Image(1))
	s.MustPull(s.ref(), opts...)
}

// aged has a cached image whose last check is 26 hours ago.
func (s *scene) aged() {
	s.T.Helper()
	s.cached()
	s.Push("writes:1", nodetest.Image(2))
	s.WaitForWrites(s.name + "/writes:1")
	s.SetLabels(s.ref(), map[string]string{"verified-at": time.Now().Add(-26 * time.Hour).UTC().Format(time.RFC3339Nano)})
}

// wantDocumented wants the page to show a message.
func (s *scene) wantDocumented(message string) {
	s.T.Helper()
	public := s.public(message)
	if !shows(blocks(s.T), invariant(public)) {
		s.T.Errorf("docs/troubleshooting.md does not show\n%s", public)
	}
}

func alice() node.PullOption { return node.Credentials("alice", password) }
func wrong() node.PullOption { return node.Credentials("alice", "wrong") }

func guarded() resolvertest.Option {
	return resolvertest.WithTokenAuth(map[string]string{"alice": password})
}
