// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestHangingRegistry holds that a pull answers while the check beside it hangs, and
// that the daemon stops while one does.
func TestHangingRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(observing, `resolve_from = "Origin"`, `verify_timeout = "10m"`))
	mirror := resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.PushTo(mirror, "app:1", nodetest.Image(1))
	for _, end := range []struct {
		by              string
		end             func()
		outcome, reason string
	}{
		{"the registry answers", n.Restore, "Pulled", "absent"},
		{"the daemon stops", n.Stop, "NotObserved", "canceled"},
	} {
		n.Registry.Forget()
		n.Registry.Hang(resolvertest.All)
		mark := hangingCheck(n, ref)
		end.end()
		got := n.Told(mark, ref)
		if got.Outcome != end.outcome || got.Reason != end.reason || got.StockPull != "succeeded" {
			t.Errorf("%s: told %+v", end.by, got)
		}
	}
}

// hangingCheck pulls an image beside whose pull the check hangs: nothing is told when
// the pull has answered. It returns the mark from before.
func hangingCheck(n *nodetest.Node, ref string) node.Mark {
	n.T.Helper()
	for {
		mark := n.Mark()
		n.MustPull(ref)
		var told []node.Decision
		nodetest.Eventually(n.T, "the check hangs", func() bool {
			told = n.Decisions(mark, ref)
			return len(n.Registry.Requests()) > 0 || len(told) > 0
		})
		if len(told) == 0 {
			return mark
		}
		if !slow(told[0]) {
			n.T.Fatalf("told %+v, and the check should hang", told)
		}
		n.Remove(ref)
	}
}

// TestStop holds that the daemon stops while a pull is under way beside its
// observation.
func TestStop(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(observing))
	n.Push("app:1", nodetest.Image(1))
	n.Registry.Hang(resolvertest.Blobs)
	pulled := make(chan error)
	go func() {
		_, err := n.Pull(nodetest.Named("app:1"))
		pulled <- err
	}()
	nodetest.Eventually(t, "the pull hangs", func() bool { return n.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	n.Stop()
	if err := <-pulled; err == nil {
		t.Error("the pull has succeeded")
	}
	got := n.Told(0, nodetest.Named("app:1"))
	if !slow(got) {
		nodetest.Want(t, "outcome", got.Outcome, "Pulled")
	}
	if got.StockPull == "succeeded" {
		t.Error("the pull is told to have succeeded")
	}
}
