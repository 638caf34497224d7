// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ofOneLayer is a pull of an image of that layer, and the key of its snapshot.
func ofOneLayer(t *testing.T, p *pulls, layer string) (l *locker, key string) {
	t.Helper()
	unpacked := digest.FromString(layer + " unpacked")
	l = p.of("registry.test/app", "alice")
	l.layers.image(t, configOf(unpacked), []ocispec.Descriptor{layerOf(layer)})
	return l, "sn://overlayfs/" + unpacked.String()
}

// A layer that is unpacked, and not committed, goes to those who wait in the order in which they came, whoever looks first.
func TestStuckLayersAreTakenOverInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		var wg sync.WaitGroup
		end := make(chan struct{})
		unpack := func(l *locker, key string) { // and do not commit: there are others above it
			ended := l.progress.unpacks(layerOf("a").Digest)
			time.Sleep(500 * time.Millisecond)
			ended()
			<-end
			l.Unlock(key)
		}
		first, key := ofOneLayer(t, &p, "a")
		waits(t, first, key)
		wg.Go(func() { unpack(first, key) })
		time.Sleep(time.Second)
		waited := make(chan time.Duration, 1)
		wg.Go(func() {
			second, key := ofOneLayer(t, &p, "a")
			waited <- waits(t, second, key)
			second.Unlock(key)
		})
		for range 20 {
			time.Sleep(41 * time.Millisecond)
			wg.Go(func() {
				l, key := ofOneLayer(t, &p, "a")
				waits(t, l, key)
				unpack(l, key)
			})
		}
		if got := <-waited; got > time.Minute/10+2*lookInterval {
			t.Errorf("who came first waited %v, want a tenth of a minute", got)
		}
		close(end)
		wg.Wait()
	})
}

// A pull from which a layer was taken over commits it: then nobody waits for the one that unpacks it once more.
func TestLayerThatIsCommittedByWhoLostIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unpacking = 40 * time.Second
		var p pulls
		first, key := ofOneLayer(t, &p, "a")
		second, _ := ofOneLayer(t, &p, "a")
		third, _ := ofOneLayer(t, &p, "a")
		waits(t, first, key)
		ended := first.progress.unpacks(layerOf("a").Digest)
		time.Sleep(unpacking)
		ended()
		var committed atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			waits(t, second, key)
			if committed.Load() {
				t.Error("it is not taken over")
			}
			ended := second.progress.unpacks(layerOf("a").Digest)
			time.Sleep(unpacking)
			ended()
			second.Unlock(key)
		})
		time.Sleep(time.Minute/10 + 2*time.Second)
		wg.Go(func() {
			time.Sleep(2 * time.Second)
			committed.Store(true)
			first.Unlock(key)
		})
		if got := waits(t, third, key); !committed.Load() || got > 3*time.Second {
			t.Errorf("waited %v for a layer that is there after 2s", got)
		}
		third.Unlock(key)
		wg.Wait()
	})
}
