// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry refuses a pod's secret, and an open mirror behind it has another image by now, which does not come. While the pod waits for
// that, another one of its namespace proves the cached image at the registry, as in TestProofOfAnotherIsNoneForWhoWasRefusedInTheCheck: at its
// pull_deadline the pod is given nothing.
func TestRefusedInTheCheckOfAPullThatHangs(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, byNamespace)
	g := newGuarded(t, resolvertest.WithTokenAuth, "")
	g.name = g.Host()
	mirror := resolvertest.New(t)
	n.WriteHosts(g.name, n.Server(g.Registry)+n.Mirror(g.Registry, "")+n.Mirror(mirror, ""))
	s := g.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled", teamA)
	s.push("1", nodetest.Image(2))
	n.PushTo(mirror, "private/app:1", nodetest.Image(2))
	defer mirror.Hang(resolvertest.Blobs)()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Pull(s.ref(":1"), wrong.secret(), teamA, node.Hint("policy", "IfDigestChanged", "pull-deadline", "2s"))
		ended <- err
	}()
	nodetest.Eventually(t, "the proof has ended", func() bool { return len(s.proofs(s.ref(":1"))) == 0 })
	mark := n.Mark()
	_, err := s.Pull(byDigest, alice.secret(), teamA, node.Hint("policy", "IfNotPresent")) // beside requests of the other pull
	nodetest.Want(t, "what proves the image", n.Decision(mark, byDigest).Outcome, "Unchanged")
	n.Must(err)
	select {
	case err := <-ended:
		t.Errorf("who was refused does not wait for its pull: %v", err)
	case <-time.After(4 * time.Second):
	}
}
