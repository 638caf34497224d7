// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"sync"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// StockPull runs containerd's own pull of a name. One that fails may have moved the name to an image that
// CRI cannot read, and goes on to take for the one that it has read last: the record gets back what it
// had then, but for proofs of access. The error is that of the pull.
func (p *Puller) StockPull(ctx context.Context, name string, pull func() error) error {
	defer p.lastRead.follow(name)()
	_, _ = p.read(ctx, name) // where CRI cannot, a pull beside this one may know what it has read
	err := pull()
	ctx = context.WithoutCancel(ctx)
	if moved, unreadable := p.read(ctx, name); err != nil && unreadable != nil {
		p.giveBack(ctx, name, moved, unreadable)
	}
	return err
}

// read has CRI read the record of a name, and notes what it has read for the pulls that follow the name: not
// where that was moved meanwhile. The error is CRI's, of a record that stands for that digest.
func (p *Puller) read(ctx context.Context, name string) (digest.Digest, error) {
	image, missing := p.images.Get(ctx, name)
	err := p.index.UpdateImage(ctx, name)
	again, gone := p.images.Get(ctx, name)
	switch {
	case again.Target.Digest != image.Target.Digest, !again.UpdatedAt.Equal(image.UpdatedAt):
	case err != nil:
		p.lastRead.refuse(name, image.Target.Digest)
	case missing == nil && gone == nil:
		p.lastRead.note(name, image)
	case errdefs.IsNotFound(missing) && errdefs.IsNotFound(gone):
		p.lastRead.note(name, images.Image{})
	}
	return image.Target.Digest, err
}

// giveBack lets a name that stands for what CRI cannot read stand for what CRI has read last, unless
// somebody has moved it on meanwhile.
func (p *Puller) giveBack(ctx context.Context, name string, from digest.Digest, unreadable error) {
	last := p.lastRead.of(name)
	if last.Name == "" || last.Target.Digest == from {
		return // CRI takes a new name for nothing
	}
	// A proof may have been refused since. Without any the image still takes one, by the digest that was checked.
	last.Labels = pwtransfer.WithoutProofs(last.Labels)
	back := false
	err := p.db.Update(func(tx *bolt.Tx) error {
		ctx := boltutil.WithTransaction(ctx, tx)
		now, err := p.images.Get(ctx, name)
		if err != nil || now.Target.Digest != from || !now.CreatedAt.Equal(last.CreatedAt) {
			return err // else it was removed, and made again
		}
		_, err = p.images.Update(ctx, last, "target", "labels")
		back = err == nil
		return err
	})
	if err == nil && !back {
		return
	}
	if back {
		err = p.index.UpdateImage(ctx, name)
	}
	prefixlog.G(ctx).WithError(errors.Join(unreadable, err)).Warnf("containerd's CRI cannot read %s, which a pull of %q has stored: "+
		"the name gets back what it stood for, or CRI would go on to take it for that", from, name)
}

// lastRead has the records of names that are being pulled as CRI has read them last. The zero value is ready.
type lastRead struct {
	mu    sync.Mutex
	names map[string]*followed
}

// maxUnreadable bounds them: pulls of a name can follow one another for as long as somebody likes.
const maxUnreadable = 64

type followed struct {
	pulls      int
	image      images.Image           // without a name: CRI has read none
	unreadable map[digest.Digest]bool // for CRI: a name that is moved to and fro is noted with none of these
}

// follow follows a name until the result is called.
func (l *lastRead) follow(name string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.names[name]
	if f == nil {
		f = &followed{unreadable: map[digest.Digest]bool{}}
		if l.names == nil {
			l.names = map[string]*followed{}
		}
		l.names[name] = f
	}
	f.pulls++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.pulls--; f.pulls == 0 {
			delete(l.names, name)
		}
	}
}

// note keeps the record that CRI has read, if the name is followed; without a name there is none.
func (l *lastRead) note(name string, image images.Image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.names[name]; f != nil && !f.unreadable[image.Target.Digest] {
		f.image = image
	}
}

// refuse keeps what CRI cannot read.
func (l *lastRead) refuse(name string, target digest.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.names[name]; f != nil {
		if len(f.unreadable) == maxUnreadable {
			clear(f.unreadable)
		}
		f.unreadable[target] = true
	}
}

func (l *lastRead) of(name string) images.Image {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.names[name]; f != nil {
		return f.image
	}
	return images.Image{}
}
