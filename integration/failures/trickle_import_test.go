// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestImportedImageBesideAPullThatHangs holds that a pod whose policy asks no registry starts from
// an imported image while another pod waits for a download of that tag that does not come.
func TestImportedImageBesideAPullThatHangs(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Import(ref, nodetest.Image(1))
	n.Push("app:1", nodetest.Image(2))
	undo := n.Registry.Hang(resolvertest.Blobs)
	defer undo()

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = n.Node.Pull(ctx, ref, node.Pod("other", "other"), node.Hint("policy", "Always"))
	}()
	defer func() { cancel(); <-ended }()
	time.Sleep(2 * time.Second) // it waits for the layers

	begun := time.Now()
	for _, policy := range []string{"Never", "IfNotPresent"} {
		short, done := context.WithTimeout(t.Context(), 15*time.Second)
		_, err := n.Node.Pull(short, ref, node.Hint("policy", policy))
		done()
		if took := time.Since(begun); err != nil || took > 7*time.Second {
			t.Errorf("%s: %v, after %v", policy, err, took)
		}
		begun = time.Now()
	}
}
