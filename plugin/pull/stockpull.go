// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/usage"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
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
	defer p.lastRead.follow(name)()
	_, _ = p.note(ctx, name) // where CRI cannot read it, a pull beside this one may know what it has read
	err := pull()
	ctx = context.WithoutCancel(ctx)
	if moved, unreadable := p.note(ctx, name); err != nil && unreadable != nil {
		p.giveBack(ctx, name, moved, unreadable)
	}
	return err
}

// note notes the record of a name for the pulls that follow it, if CRI can read it. Else the error says why, and
// for what the name stands.
func (p *Puller) note(ctx context.Context, name string) (digest.Digest, error) {
	image, err := p.images.Get(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		p.lastRead.note(name, images.Image{})
		return "", nil
	case err != nil:
		return "", nil //nolint:nilerr // nor can CRI, which goes on as before
	}
	if err := p.readable(ctx, image); err != nil {
		return image.Target.Digest, err
	}
	p.lastRead.note(name, image)
	return image.Target.Digest, nil
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
func (p *Puller) giveBack(ctx context.Context, name string, from digest.Digest, unreadable error) {
	last, absent := p.lastRead.of(name)
	if !absent && (last.Name == "" || last.Target.Digest == from) {
		return // CRI has read nothing by it
	}
	// A proof may have been refused since. Without any the image still takes one, by the digest that was checked.
	last.Labels = pwtransfer.WithoutProofs(last.Labels)
	back := false
	err := p.db.Update(func(tx *bolt.Tx) error {
		ctx := boltutil.WithTransaction(ctx, tx)
		now, err := p.images.Get(ctx, name)
		if err != nil || now.Target.Digest != from {
			return err
		}
		if absent || !now.CreatedAt.Equal(last.CreatedAt) {
			err = p.images.Delete(ctx, name)
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

type followed struct {
	pulls  int
	image  images.Image // without a name: CRI has read none
	absent bool         // there was no such name
}

// follow follows a name until the result is called.
func (l *lastRead) follow(name string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.names[name]
	if f == nil {
		f = &followed{}
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
	if f := l.names[name]; f != nil {
		f.image, f.absent = image, image.Name == ""
	}
}

func (l *lastRead) follows(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name] != nil
}

func (l *lastRead) of(name string) (image images.Image, absent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.names[name]; f != nil {
		return f.image, f.absent
	}
	return images.Image{}, false
}
