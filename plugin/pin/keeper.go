// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pin keeps the images that rules pin from the kubelet's garbage collection, as
// far as there is room for them.
//
// A pin is CRI's own label on the record of a tag, beside pullwarden's own, so it goes
// with the tag: what the tag pointed at before has none. A pull writes it in the same
// step as the new target (package plugin/transfer). Everything else happens in passes of
// one goroutine, each over all that has come since the last:
//
//	Keep, Review, ReviewAll ──► wanted ──► pass: what is pinned     (store)
//	                                        │     how large it is   (store/content)
//	                                        │     fit: pure         (room.go)
//	                                        ▼
//	                                       write (store), then tell CRI's index
//
// An image that was released to make room is pinned again when it is used again, and not
// before: a pass looks at nothing that is not pinned, or wanted.
package pin

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/namespace"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

const (
	// passInterval is the least time between two passes: one reads all records.
	passInterval = time.Second
	// retryInterval is the time until a pass that failed is tried again.
	retryInterval = 10 * time.Second
	// closeTimeout bounds the last pass.
	closeTimeout = 5 * time.Second
	// useResolution is how much later a use may be than the record tells, after a crash.
	// It bounds the writes of a pinned image to one in that time.
	useResolution = time.Hour
	// maxRemembered bounds the images whose size, use or excess is remembered.
	maxRemembered = 4096
)

// Records are the image records; *store.Store is one.
type Records interface {
	Get(ctx context.Context, name string) (store.Record, error)
	Pins(ctx context.Context) ([]store.Record, error)
	SetPins(ctx context.Context, changes []store.PinChange) error
}

// Sizes tells how large images are; *content.Images is one.
type Sizes interface {
	// Size returns the ID and the size, in bytes, that CRI shows.
	Size(ctx context.Context, target ocispec.Descriptor) (id digest.Digest, bytes int64, err error)
}

// Index is CRI's index of images, which shows what is pinned.
type Index interface {
	// UpdateImage reads a record again.
	UpdateImage(ctx context.Context, name string) error
}

// Options are what a Keeper works with. All are needed but Limit.
type Options struct {
	Records Records
	Sizes   Sizes
	Index   Index
	// MayPin reports whether a rule in force pins a tag, for pods of any namespace.
	MayPin func(tag string) bool
	// Limit bounds the sum of the sizes of pinned images, in bytes. Default: 0, no bound.
	Limit int64
	// Released is told of each image that was released, or not pinned, and why.
	Released func(Reason)
	Now      func() time.Time
}

// Reason says why an image is pinned no more.
type Reason string

// The reasons. They are values of a metric's label: keep them few.
const (
	ByRule   Reason = "rule"      // no rule pins it any more, or it is not current for its tag
	ForRoom  Reason = "room"      // others were used later, and the limit has no room for all
	TooLarge Reason = "too_large" // it alone is larger than the limit
)

// Keeper pins and releases. It is safe for concurrent use, and holds no lock while it
// reads or writes.
type Keeper struct {
	o        Options
	sizes    *lru.Cache[digest.Digest, size]     // by target
	uses     *lru.Cache[string, time.Time]       // of tags, since the start
	tooLarge *lru.Cache[digest.Digest, struct{}] // targets of which that was said
	untold   map[string]struct{}                 // tags of which CRI does not know yet; the work's own

	mu      sync.Mutex
	wanted  wanted
	counted map[string]digest.Digest // what the last pass left pinned: targets by tag

	wake    chan struct{}
	stop    chan struct{}
	cancel  context.CancelFunc // of the work
	stopped chan struct{}
}

// wanted is what the next pass is for.
type wanted struct {
	tags map[string]bool // to be looked at; true: to be pinned
	all  bool            // all that is pinned is to be looked at
}

// add has a tag looked at, and pinned if any word since the last pass was to keep it.
func (w *wanted) add(tag string, keep bool) { w.tags[tag] = w.tags[tag] || keep }

// Start starts a keeper, which looks at once at what is pinned: rules may have changed
// while the daemon was down. The caller closes it.
func Start(o Options) *Keeper {
	ctx, cancel := context.WithCancel(namespace.CRI(context.Background()))
	k := &Keeper{
		o: o, untold: map[string]struct{}{}, cancel: cancel, sizes: remember[digest.Digest, size](), uses: remember[string, time.Time](), tooLarge: remember[digest.Digest, struct{}](),
		wanted: wanted{tags: map[string]bool{}, all: true},
		wake:   make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	k.wake <- struct{}{}
	go k.work(ctx)
	return k
}

func remember[K comparable, V any]() *lru.Cache[K, V] {
	cache, err := lru.New[K, V](maxRemembered)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	return cache
}

// Keep pins the image that a tag has now, and has just been used. It returns at once.
func (k *Keeper) Keep(ctx context.Context, tag string) {
	k.uses.Add(tag, k.o.Now())
	r, err := k.o.Records.Get(namespace.CRI(ctx), tag)
	switch {
	case err != nil || r.Pin.Foreign || !r.Current():
	case r.Pin.Own && k.isCounted(r) && k.o.Now().Sub(r.LastUseBy(k.o.Now())) < useResolution && k.o.MayPin(tag):
	case !r.Pin.Own && k.tooLarge.Contains(r.Target.Digest):
	default:
		k.want(func(w *wanted) { w.add(tag, true) })
	}
}

// Used notes that the image of a tag has just been used, if it is pinned: there can be any
// number of other tags, which must not crowd out the uses of those.
func (k *Keeper) Used(tag string) {
	if k.mayBePinned(tag) {
		k.uses.Add(tag, k.o.Now())
	}
}

// Pulled notes that the image of a tag came with a pin, to be used now: it takes room. It returns at once.
func (k *Keeper) Pulled(tag string) {
	k.uses.Add(tag, k.o.Now())
	k.Review(tag)
}

// Review releases the image of a tag if no rule pins it any more. It returns at once.
func (k *Keeper) Review(tag string) {
	k.want(func(w *wanted) { w.add(tag, false) })
}

// ReviewAll is Review of all that is pinned, after the rules have changed.
func (k *Keeper) ReviewAll() { k.want(func(w *wanted) { w.all = true }) }

// MayPin reports whether a rule in force pins a tag, for pods of any namespace.
func (k *Keeper) MayPin(tag string) bool { return k.o.MayPin(tag) }

func (k *Keeper) want(add func(*wanted)) {
	k.mu.Lock()
	add(&k.wanted)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default: // a pass is to come anyway
	}
}

// mayBePinned reports whether the last pass has left a tag pinned, or there was none yet.
func (k *Keeper) mayBePinned(tag string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counted == nil || k.counted[tag] != ""
}

// isCounted reports whether the last pass has weighed the pin of a record.
func (k *Keeper) isCounted(r store.Record) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counted[r.Name] == r.Target.Digest
}

// Close writes when pinned images were used last, and ends the background work. It takes
// seconds at most. The error is always nil.
func (k *Keeper) Close() error {
	close(k.stop)
	timeout := time.AfterFunc(closeTimeout, k.cancel)
	defer timeout.Stop()
	<-k.stopped
	k.cancel()
	return nil
}

func (k *Keeper) work(ctx context.Context) {
	defer close(k.stopped)
	var pause <-chan time.Time
	wake := k.wake
	for {
		select {
		case <-wake:
			wake, pause = nil, time.After(k.passAndWarn(ctx, useResolution))
		case <-pause:
			wake, pause = k.wake, nil
		case <-k.stop:
			if k.mayHaveUses() {
				k.passAndWarn(ctx, 0)
			}
			return
		}
	}
}

// mayHaveUses reports whether there is a pin that a use could be written on, or is to be.
func (k *Keeper) mayHaveUses() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.counted)+len(k.wanted.tags) > 0
}

// passAndWarn returns the time until the next pass may be.
func (k *Keeper) passAndWarn(ctx context.Context, resolution time.Duration) time.Duration {
	w := k.take()
	err := k.pass(ctx, w, resolution)
	if err == nil {
		return passInterval
	}
	prefixlog.L().WithError(err).Warn("images are not pinned or released yet")
	k.want(func(now *wanted) {
		now.all = now.all || w.all
		for tag, keep := range w.tags {
			now.add(tag, keep)
		}
	})
	return retryInterval
}

func (k *Keeper) take() wanted {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.wanted
	k.wanted = wanted{tags: map[string]bool{}}
	return w
}

// Count returns how many images of these records pullwarden has pinned, and the sum of
// their sizes in bytes.
func (k *Keeper) Count(ctx context.Context, records []images.Image) (n int, bytes int64) {
	var tags []tag
	for _, r := range records {
		if store.Decode(r.Name, r.Target.Digest, r.Labels).Pin.Own {
			tags = append(tags, tag{size: k.sizeOf(ctx, r.Target)})
		}
	}
	all := imagesOf(tags)
	return len(all), total(all)
}
