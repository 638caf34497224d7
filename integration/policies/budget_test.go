// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestChecksPerMinute holds that a node asks a registry no more often than its budget says,
// and starts what is beyond from the cached image; and that it pulls an image that is not
// there all the same.
func TestChecksPerMinute(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, "checks_per_minute = 1"))
	n.Push("team-a/app:1", nodetest.Image(1))
	ref := nodetest.Named("team-a/app:1")
	n.MustPull(ref)
	nodetest.Want(t, "the first outcome", n.Decision(0, ref).Outcome, "Pulled")

	const starts = 6
	began, mark := time.Now(), n.Mark()
	n.Registry.Forget()
	for range starts {
		n.MustPull(ref)
	}
	// One at once, if the daemon has been there for a minute, and one more for each minute.
	allowed := 1 + int(time.Since(began)/time.Minute)
	checks := n.Registry.Count(resolvertest.Of(http.MethodHead, resolvertest.Manifests))
	if checks > allowed {
		t.Errorf("%d checks, want %d at most", checks, allowed)
	}
	cached := 0
	for _, d := range n.Decisions(mark, ref) {
		if d.Outcome == "UsedCached" {
			cached++
			nodetest.Want(t, "the reason", d.Reason, "rate_limited")
		}
	}
	nodetest.Want(t, "starts from the cached image", cached, starts-checks)
	if checks < starts && len(n.LogLines(mark, "not asked: the node has made its checks_per_minute=1(section)")) != cached {
		t.Errorf("the log does not say why: %v", n.LogLines(mark, "pullwarden: UsedCached"))
	}
}
