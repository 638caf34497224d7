// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// StockPull runs containerd's own pull of a name. One that fails may have moved the name to an image that
// CRI cannot read, and goes on to take for the one that it has read last: such a name is removed, and CRI
// forgets it. The error is that of the pull.
func (p *Puller) StockPull(ctx context.Context, name string, pull func() error) error {
	before, _ := p.images.Get(ctx, name)
	err := pull()
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	now, missing := p.images.Get(ctx, name)
	if missing != nil || now.UpdatedAt.Equal(before.UpdatedAt) { // nobody has written it, not even what it had
		return err
	}
	// CRI reads a name again at any time, but what it could not read when the pull has moved that may be there by now,
	// and go again.
	if unreadable := p.index.UpdateImage(ctx, name); unreadable != nil {
		p.forget(ctx, now, unreadable)
	}
	return err
}

// forget removes the record of an image that CRI cannot read, and has CRI forget its name. Labels may have been written
// meanwhile, which make it no more readable. Where the name has been moved on, the pull that did so sees to it at its end.
func (p *Puller) forget(ctx context.Context, image images.Image, unreadable error) {
	err := p.images.Delete(ctx, image.Name, images.DeleteTarget(&image.Target))
	if errdefs.IsNotFound(err) {
		return
	}
	// A record that is gone may have an error, too: containerd could not tell of it.
	err = errors.Join(unreadable, err, p.index.UpdateImage(ctx, image.Name))
	prefixlog.G(ctx).WithError(err).Warnf("containerd's CRI cannot read %s, which a pull of %q has stored: "+
		"the name is removed, or CRI would go on to take it for what it stood for", image.Target.Digest, image.Name)
}
