// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestStatusByAllReferences asks for the status of an image by its tag, its
// digest and its ID, as critest's "image status should support all kinds of
// references" does: the answers are the same message.
func TestStatusByAllReferences(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	dgst := n.Push("app:1", nodetest.Image(1))
	tag := nodetest.Named("app:1")
	id := n.MustPull(tag)
	byTag := n.Status(tag).GetImage()
	if byTag.GetSpec().GetAnnotations()["pullwarden.io/pull-source"] == "" {
		t.Error("the source is not shown")
	}
	for _, ref := range []string{nodetest.Named("app@" + dgst.String()), id} {
		if got := n.Status(ref).GetImage(); !proto.Equal(got, byTag) {
			t.Errorf("by %s:\n%v\nby its tag:\n%v", ref, got, byTag)
		}
	}

	// A second tag shows what is known of it; the others show the first.
	n.Push("app:2", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:2"))
	nodetest.Want(t, "name by the second tag", n.Status(nodetest.Named("app:2")).GetImage().GetSpec().GetImage(), nodetest.Named("app:2"))
	for _, ref := range []string{nodetest.Named("app@" + dgst.String()), id} {
		nodetest.Want(t, "name by "+ref, n.Status(ref).GetImage().GetSpec().GetImage(), tag)
	}
}
