// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// size is how large an image is.
type size struct {
	id    digest.Digest
	bytes int64
}

// tag is a record that is pinned, or is to be.
type tag struct {
	record store.Record
	size   size
	used   time.Time
}

// pass pins what is wanted, releases what no rule pins any more, and what there is no
// room for. It writes a use where the record is behind by more than the resolution.
func (k *Keeper) pass(ctx context.Context, w wanted, resolution time.Duration) error {
	tags, unruled, err := k.tags(ctx, w)
	if err != nil {
		return err
	}
	kept, released, tooLarge := fit(imagesOf(tags), k.o.Limit)
	var changes, uses []store.PinChange
	counted := map[string]digest.Digest{}
	for _, i := range kept {
		for _, r := range i.tags {
			counted[r.Name] = r.Target.Digest
			used := k.lastUse(r).Truncate(time.Second) // as labels have it
			pinned := store.PinChange{Name: r.Name, Target: r.Target, Pin: store.Pin{Own: true, Used: used}}
			switch {
			case !r.Pin.Own:
				changes = append(changes, pinned)
			case used.Sub(r.LastUseBy(k.o.Now())) > resolution:
				uses = append(uses, pinned)
			}
		}
	}
	changes = append(changes, releases(unruled)...)
	for _, i := range append(released, tooLarge...) {
		changes = append(changes, releases(i.tags)...)
	}
	if err := k.write(ctx, changes, uses); err != nil {
		return err
	}
	k.mu.Lock()
	k.counted = counted
	k.mu.Unlock()
	k.tellUnruled(unruled)
	k.tellReleased(released)
	k.tellTooLarge(tooLarge)
	return nil
}

// releases are the changes that release those of the records that are pinned.
func releases(records []store.Record) (changes []store.PinChange) {
	for _, r := range records {
		if r.Pin.Own {
			changes = append(changes, store.PinChange{Name: r.Name, Target: r.Target})
		}
	}
	return changes
}

// write writes changes, and tells CRI of them; uses are changes that CRI does not show.
func (k *Keeper) write(ctx context.Context, changes, uses []store.PinChange) error {
	if len(changes)+len(uses) > 0 {
		if err := k.o.Records.SetPins(ctx, append(uses, changes...)); err != nil {
			return err
		}
	}
	for _, c := range changes {
		k.untold[c.Name] = struct{}{}
	}
	for name := range k.untold {
		if err := k.o.Index.UpdateImage(ctx, name); err != nil {
			prefixlog.L().WithError(err).Warnf("CRI does not know yet whether %s is pinned", name)
			continue
		}
		delete(k.untold, name)
	}
	return nil
}

// tags are all that are pinned or to be pinned; unruled are those of them whose pin is to
// go, whatever room there is.
func (k *Keeper) tags(ctx context.Context, w wanted) (tags []tag, unruled []store.Record, err error) {
	pinned, err := k.o.Records.Pins(ctx)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for _, r := range pinned {
		seen[r.Name] = true
		_, looked := w.tags[r.Name]
		if !r.Current() || (looked || w.all) && !k.o.MayPin(r.Name) {
			unruled = append(unruled, r)
			continue
		}
		tags = append(tags, tag{r, k.sizeOf(ctx, r.Target), k.lastUse(r)})
	}
	for name, keep := range w.tags {
		if !keep || seen[name] {
			continue
		}
		r, err := k.o.Records.Get(ctx, name)
		switch {
		case errdefs.IsNotFound(err) || err == nil && (r.Pin.Foreign || !r.Current() || !k.o.MayPin(name)):
		case err != nil:
			return nil, nil, err
		default:
			tags = append(tags, tag{r, k.sizeOf(ctx, r.Target), k.lastUse(r)})
		}
	}
	return tags, unruled, ctx.Err()
}

// lastUse is when an image was last used by a tag: as far as is remembered, or else as its record tells. That tells seconds, of
// which it is the end: a pass may come between a pull and its use, and others' uses are remembered to the nanosecond.
func (k *Keeper) lastUse(r store.Record) time.Time {
	last := r.LastUseBy(k.o.Now()).Truncate(time.Second)
	at, ok := k.uses.Peek(r.Name)
	switch {
	case ok && !at.Before(last):
		return at
	case last.IsZero():
		return last
	default:
		return last.Add(time.Second - 1)
	}
}

// sizeOf returns the size of an image. One that cannot be read takes no room: a pin is
// not lost by that.
func (k *Keeper) sizeOf(ctx context.Context, target ocispec.Descriptor) size {
	if s, ok := k.sizes.Get(target.Digest); ok {
		return s
	}
	id, bytes, err := k.o.Sizes.Size(ctx, target)
	if err != nil {
		prefixlog.L().WithError(err).Debugf("the size of the pinned image %s cannot be read", target.Digest)
		return size{id: target.Digest}
	}
	s := size{id, bytes}
	k.sizes.Add(target.Digest, s)
	return s
}
