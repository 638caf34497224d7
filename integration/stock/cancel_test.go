// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestCancel holds that a client that goes away ends its check and its pull,
// and does no harm to the next.
func TestCancel(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "60s"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	n.Push("app:1", nodetest.Image(2))
	for _, part := range []resolvertest.Part{resolvertest.Manifests, resolvertest.Blobs} {
		t.Run("while the registry hangs in "+string(part), func(t *testing.T) {
			n := n.In(t)
			undo := n.Registry.Hang(part)
			n.Registry.Forget()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			mark := n.Mark()
			go func() {
				_, err := n.Node.Pull(ctx, ref)
				done <- err
			}()
			nodetest.Eventually(t, "the request hangs", func() bool { return n.Registry.Count(resolvertest.Of("", part)) > 0 })
			cancel()
			if err := <-done; status.Code(err) != codes.Canceled {
				t.Errorf("got %v, want %v", err, codes.Canceled)
			}
			nodetest.Eventually(t, "the daemon gave up", func() bool { return len(n.Decisions(mark, ref)) == 1 })
			nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Failed")
			undo()
			if strings.Contains(n.Labels(ref)["stale-reason"], "un") {
				t.Error("a client that went away counts as a failure of the registry")
			}
		})
	}
	began := time.Now()
	n.MustPull(ref)
	n.WantRunnable(ref)
	if took := time.Since(began); took > 30*time.Second { // and not the verify_timeout
		t.Errorf("the next pull took %v", took)
	}
}
