// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deadline tests on a node that nobody waits longer for a changed image than
// pull_deadline says, where the cached one would do, and what becomes of the pull.
package deadline

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// atOnce is a section under which nobody waits for a changed image.
var atOnce = nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "0s"`)

// scene is a node that has app:1, which was then pushed anew to a registry that holds
// its content back until release.
type scene struct {
	*nodetest.Node
	ref      string
	id       string        // of the cached image
	old, new digest.Digest // cached and pushed
	release  func()
}

func newScene(t *testing.T, r *resolvertest.Registry, opts ...nodetest.Option) *scene {
	t.Helper()
	n := nodetest.NewWith(t, r, opts...)
	s := &scene{Node: n, ref: nodetest.Named("app:1")}
	s.old = n.Push("app:1", nodetest.Image(1))
	s.id = n.MustPull(s.ref)
	s.new = n.Push("app:1", nodetest.Image(2))
	s.release = n.Registry.Hang(resolvertest.Blobs)
	t.Cleanup(s.release)
	return s
}

// wantCached pulls, and holds that the cached image is used without the new one. It
// returns the line of the decision.
func (s *scene) wantCached(opts ...node.PullOption) node.Decision {
	s.T.Helper()
	mark := s.Mark()
	nodetest.Want(s.T, "image ID", s.MustPull(s.ref, opts...), s.id)
	d := s.Decision(mark, s.ref)
	nodetest.Want(s.T, "outcome", d.Outcome+" ("+d.Reason+")", "UsedCached (pull_deadline)")
	return d
}

// wantNew waits until the pull in the background has brought the new image, and holds
// that the next pod gets that, from a record without a stale mark.
func (s *scene) wantNew(since node.Mark, opts ...node.PullOption) {
	s.T.Helper()
	nodetest.Eventually(s.T, "the pull in the background ends", func() bool { return s.background(since) != "" })
	nodetest.Want(s.T, "pull in the background", s.background(since), "Pulled (changed)")
	nodetest.Want(s.T, "target", s.Target(s.ref), s.new)
	nodetest.Want(s.T, "stale", s.Labels(s.ref)["stale-reason"], "")
	mark := s.Mark()
	if id := s.MustPull(s.ref, opts...); id == s.id {
		s.T.Error("the next pod has the old image")
	}
	nodetest.Want(s.T, "next outcome", s.Decision(mark, s.ref).Outcome, "Unchanged")
	s.WantRunnable(s.ref)
	s.WantTrueLabels()
}

// background returns how pulls in the background have ended since the mark; "" for none.
func (s *scene) background(since node.Mark) (ends string) {
	s.T.Helper()
	all, err := s.BackgroundPulls(since, s.ref)
	s.Must(err)
	for _, d := range all {
		ends += d.Outcome + " (" + d.Reason + ")"
	}
	return ends
}
