// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

// removing is CRI's index, beside which all records of an image are removed as soon as it
// hears of its ID.
type removing struct {
	*index
	images images.Store
	names  []string
}

func (r *removing) UpdateImage(ctx context.Context, name string) error {
	for _, n := range r.names {
		if err := r.images.Delete(ctx, n); err != nil {
			return err
		}
	}
	r.names = nil
	return r.index.UpdateImage(ctx, name)
}

// TestRemovedWhileItIsNamed removes an image after its pull has stored it, before it has all
// of its names: no record is left of it that says nothing of who may have it, which would
// open the image to everybody.
func TestRemovedWhileItIsNamed(t *testing.T) {
	for what, here := range map[string]bool{"pulled": false, "completed": true} {
		n := newNode(t)
		ref, target := n.push("team/app:1", resolvertest.Image(1, 2, 100))
		canonical := n.registry.Host() + "/team/app@" + target.String()
		if here {
			n.pull(settings(), ref, "")
		}
		p := n.puller(settings())
		p.index = &removing{n.index, n.Images, []string{ref, canonical}}
		plan := n.plan(ref)
		plan.State = func(d digest.Digest, _ store.State) store.State {
			return store.State{Verified: store.Verified{Digest: d, At: noon, By: n.registry.Host()}}
		}
		_, err := p.Pull(n.ctx, plan, "")
		if !errors.Is(err, pwtransfer.ErrGone) {
			t.Errorf("%s: the pull ended with %v", what, err)
		}
		for _, name := range []string{ref, canonical} {
			img, getting := n.Images.Get(n.ctx, name)
			if errdefs.IsNotFound(getting) {
				continue
			}
			check(t, getting)
			if s := store.Decode(name, img.Target.Digest, img.Labels); !s.Restricted {
				t.Errorf("%s: %s is everybody's: labels %v", what, name, img.Labels)
			}
		}
	}
}
