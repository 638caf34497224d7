// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/usage"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/quoted"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// StockPull runs containerd's own pull of a name. One that fails may have moved the name to an image that
// CRI cannot read, and goes on to take for the one that it has read last: the record gets back what it
// had then, but for proofs of access, and a new one goes. The error is that of the pull.
func (p *Puller) StockPull(ctx context.Context, name string, pull func() error) error {
	defer p.followed.follow(name)()
	_, _ = p.note(ctx, name) // nothing is read, which could take long
	err := pull()
	ctx = context.WithoutCancel(ctx)
	now, missing := p.note(ctx, name)
	if err == nil || missing != nil {
		return err
	}
	if unreadable := p.readable(ctx, now); unreadable != nil {
		p.giveBack(ctx, now, unreadable)
	}
	return err
}

// note notes for what a name stands, for the pulls that follow it, and returns that.
func (p *Puller) note(ctx context.Context, name string) (images.Image, error) {
	image, err := p.images.Get(ctx, name)
	if err == nil || errdefs.IsNotFound(err) {
		p.followed.note(name, image)
	}
	return image, err
}

// readable returns why CRI cannot read an image: it reads what CRI reads, without any bounds, as that does. To ask
// CRI would be a question about the name, which others may move at this moment.
func (p *Puller) readable(ctx context.Context, image images.Image) error {
	platform := platforms.Default()
	if _, err := image.RootFS(ctx, p.contents, platform); err != nil {
		return err
	}
	if _, err := usage.CalculateImageUsage(ctx, image, p.contents, usage.WithManifestLimit(platform, 1), usage.WithManifestUsage()); err != nil {
		return err
	}
	config, err := image.Config(ctx, p.contents, platform)
	if err != nil {
		return err
	}
	data, err := content.ReadBlob(ctx, p.contents, config)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &ocispec.Image{}); err != nil {
		return fmt.Errorf("config %s: %s", config.Digest, quoted.Cut(err.Error()))
	}
	return nil
}

// giveBack lets a name that stands for what CRI cannot read stand for what CRI has read last, unless
// somebody has moved it on meanwhile. The record of a name that was not there, or was made again, goes: CRI may
// have read what another pull has stored in between, and forgets it so.
func (p *Puller) giveBack(ctx context.Context, from images.Image, unreadable error) {
	last, absent := p.lastRead(ctx, from)
	if last.Name == "" && !absent {
		return // nobody knows what CRI has read by it
	}
	// A proof may have been refused since. Without any the image still takes one, by the digest that was checked.
	last.Labels = pwtransfer.WithoutProofs(last.Labels)
	back := false
	err := p.db.Update(func(tx *bolt.Tx) error {
		ctx := boltutil.WithTransaction(ctx, tx)
		now, err := p.images.Get(ctx, from.Name)
		if err != nil || now.Target.Digest != from.Target.Digest {
			return err
		}
		if last.Name == "" || !now.CreatedAt.Equal(last.CreatedAt) {
			err = p.images.Delete(ctx, from.Name)
		} else {
			_, err = p.images.Update(ctx, last, "target", "labels")
		}
		back = err == nil
		return err
	})
	if err == nil && !back {
		return
	}
	if back {
		err = p.index.UpdateImage(ctx, from.Name)
	}
	prefixlog.G(ctx).WithError(errors.Join(unreadable, err)).Warnf("containerd's CRI cannot read %s, which a pull of %q has stored: "+
		"the name gets back what it stood for, or CRI would go on to take it for that", from.Target.Digest, from.Name)
}

// lastRead returns the last image that CRI can read of those for which the name has stood; none where nobody knows,
// or, which absent says, where there was no such name since.
func (p *Puller) lastRead(ctx context.Context, from images.Image) (last images.Image, absent bool) {
	for _, image := range slices.Backward(p.followed.of(from.Name)) {
		switch {
		case image.Name == "":
			return images.Image{}, true
		case image.Target.Digest != from.Target.Digest && p.readable(ctx, image) == nil:
			return image, false
		}
	}
	return images.Image{}, false
}

// followed has what names have stood for that are being pulled. The zero value is ready.
type followed struct {
	mu    sync.Mutex
	names map[string]*standing
}

type standing struct {
	pulls int
	stood []images.Image // the last ones, in their order; one without a name = there was none
}

// maxStood bounds them: pulls of a name can follow one another for as long as somebody likes.
const maxStood = 16

// follow follows a name until the result is called.
func (f *followed) follow(name string) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.names[name]
	if s == nil {
		s = &standing{}
		if f.names == nil {
			f.names = map[string]*standing{}
		}
		f.names[name] = s
	}
	s.pulls++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.pulls--; s.pulls == 0 {
			delete(f.names, name)
		}
	}
}

// note adds what a name stands for, if the name is followed: as the last one, if it has stood for that before.
func (f *followed) note(name string, image images.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.names[name]
	if s == nil {
		return
	}
	s.stood = append(slices.DeleteFunc(s.stood, func(before images.Image) bool { return before.Target.Digest == image.Target.Digest }), image)
	s.stood = s.stood[max(0, len(s.stood)-maxStood):]
}

// has reports whether a name is followed.
func (f *followed) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name] != nil
}

// of returns what a name has stood for.
func (f *followed) of(name string) []images.Image {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.names[name]; s != nil {
		return slices.Clone(s.stood)
	}
	return nil
}
