// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
)

// placed returns a pull with that limit of downloads on whose node some content is.
func (p *pulls) placed(limit int, present ...digest.Digest) *locker {
	l := p.of("registry.test/app", "alice")
	l.places = newPlaces(limit, func(_ context.Context, d digest.Digest) bool { return slices.Contains(present, d) })
	return l
}

// begun has a pull begin so many layers at once, and returns how many it has begun with.
func begun(ctx context.Context, l *locker, all *sync.WaitGroup, layers int) (n int) {
	for i := range layers {
		all.Go(func() { _ = l.Lock(ctx, fmt.Sprintf("blob://sha256:%d", i)) })
	}
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// A pull begins with no more layers than it may download, and a few. Others have places of their own.
func TestLayersBegunAtATime(t *testing.T) {
	for limit, want := range map[int]int{1: 21, 3: 23, 0: 148} {
		synctest.Test(t, func(t *testing.T) {
			var p pulls
			var all sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			pull := p.placed(limit)
			if got := begun(ctx, pull, &all, 10_000); got != want {
				t.Errorf("limit %d: %d are begun with, want %d", limit, got, want)
			}
			for key := range pull.held {
				pull.Unlock(key)
				break
			}
			synctest.Wait()
			if len(pull.held) != want {
				t.Errorf("limit %d: %d are begun with after one has ended", limit, len(pull.held))
			}
			other := p.of("other.test/app", "bob")
			other.places = newPlaces(limit, pull.places.has)
			if got := waits(t, other, blob); got != 0 {
				t.Errorf("another pull waited %v", got)
			}
			other.Unlock(blob)
			cancel()
			all.Wait()
			if len(pull.held) != want {
				t.Errorf("limit %d: %d are held after the end of the pull", limit, len(pull.held))
			}
		})
	}
}

// Neither what is on the node waits for downloads, nor a snapshot.
func TestPresentContentWaitsForNoDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		pull := p.placed(3, "sha256:here", "sha256:too")
		begun(ctx, pull, &all, 100)
		if got := waits(t, pull, "blob://sha256:here") + waits(t, pull, "sn://overlayfs/sha256:1"); got != 0 {
			t.Errorf("waited %v", got)
		}
		time.AfterFunc(time.Second, func() { pull.Unlock("blob://sha256:here") })
		if got := waits(t, pull, "blob://sha256:too"); got != time.Second {
			t.Errorf("what is here waited %v for other content that is", got)
		}
		cancel()
		all.Wait()
	})
}

// What waits for a place holds up no others when its pull ends, nor does an image that has a layer
// more often than there are places wait for itself.
func TestPlacesAndTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		full := p.placed(1)
		begun(ctx, full, &all, 21)
		ended := make(chan error, 1)
		go func() { ended <- full.Lock(ctx, "blob://sha256:more") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got := waits(t, p.placed(1), "blob://sha256:more"); got != 0 {
			t.Errorf("the turn was held for %v", got)
		}
		all.Wait()

		twice, began := p.placed(1), time.Now()
		for range 100 {
			all.Go(func() {
				if waits(t, twice, "blob://sha256:twice"); len(twice.held) == 1 {
					time.Sleep(time.Second)
				}
				twice.Unlock("blob://sha256:twice")
			})
		}
		all.Wait()
		if got := time.Since(began); got != 100*time.Second {
			t.Errorf("a layer that is there 100 times took %v", got)
		}
	})
}
