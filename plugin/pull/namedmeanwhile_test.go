// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// movingIndex is CRI's index, beside which a pull of containerd's own (Observe, ctr) gives a name to another image, as soon
// as it hears of the ID of the one that is being named.
type movingIndex struct {
	*index
	images images.Store
	to     images.Image
}

func (m *movingIndex) UpdateImage(ctx context.Context, name string) error {
	if m.to.Name != "" {
		if _, err := m.images.Update(ctx, m.to, "target"); err != nil {
			return err
		}
		m.to = images.Image{}
	}
	return m.index.UpdateImage(ctx, name)
}

// A pull, or a completion, that has stored its image takes the name back from nobody as it names it.
func TestNameMovedWhileItIsNamed(t *testing.T) {
	for what, here := range map[string]bool{"pulled": false, "completed": true} {
		n := newNode(t)
		newer, _ := n.push("team/app:3", resolvertest.Image(3, 2, 100))
		n.pull(settings(), newer, "")
		other, err := n.Images.Get(n.ctx, newer)
		check(t, err)
		ref, _ := n.push("team/app:1", resolvertest.Image(1, 2, 100))
		if here {
			n.pull(settings(), ref, "")
		}
		p := n.puller(settings())
		p.index = &movingIndex{n.index, n.Images, images.Image{Name: ref, Target: other.Target}}
		_, err = p.Pull(n.ctx, n.plan(ref), "")
		now, getting := n.Images.Get(n.ctx, ref)
		check(t, getting)
		if now.Target.Digest != other.Target.Digest {
			t.Errorf("%s: the name has been given back to %s, the pull ended with %v", what, now.Target.Digest, err)
		}
	}
}
