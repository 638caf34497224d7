// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Who has unpacked a layer, and has others to unpack before it commits that, is waited for during a tenth of the patience, by pulls that are not
// hurried as well; and for what it unpacks, or downloads, as ever.
func TestTurnOfALayerThatIsUnpacked(t *testing.T) {
	a, of := digest.FromString("a unpacked"), layerOf("a").Digest
	lower, upper := "sn://overlayfs/"+a.String(), "sn://overlayfs/"+identity.ChainID([]digest.Digest{a, a}).String()
	const takes, soon = 5 * time.Second, 11*time.Second + lookInterval
	for what, tc := range map[string]struct {
		repository, key string
		begins          time.Duration // when it takes the turn
		times           int           // that it unpacks the layer
		least, most     time.Duration
	}{
		"from the source":            {"registry.test/app", lower, 0, 1, 11 * time.Second, soon},
		"in another repository":      {"registry.test/other", lower, 0, 1, 11 * time.Second, soon},
		"and above it, many times":   {"registry.test/app", lower, 0, 100, 11 * time.Second, soon},
		"still to be unpacked":       {"registry.test/app", lower, 0, 0, time.Hour, time.Hour},
		"… in another repository":    {"registry.test/other", lower, 0, 0, time.Minute, time.Minute},
		"below, and not here yet":    {"registry.test/app", upper, takes + time.Second, 1, time.Hour, time.Hour},
		"downloaded from the source": {"registry.test/app", "blob://" + of.String(), 0, 1, time.Hour, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pulls
				first, second := p.of(tc.repository, "alice"), p.of("registry.test/app", "alice")
				for _, l := range []*locker{first, second} {
					l.layers.image(t, configOf(a, a), []ocispec.Descriptor{layerOf("a"), layerOf("a")})
				}
				go func() {
					for range tc.times {
						ended := first.progress.unpacks(of)
						time.Sleep(takes)
						ended()
					}
				}()
				time.Sleep(tc.begins)
				waits(t, first, tc.key)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if got := waits(t, second, tc.key); got < tc.least || got > tc.most {
						t.Errorf("waited %v, want %v to %v", got, tc.least, tc.most)
					}
				}()
				time.Sleep(time.Hour)
				first.Unlock(tc.key)
				<-done
				second.Unlock(tc.key)
				if len(p.turns.all) > 0 {
					t.Errorf("%v are left", p.turns.all)
				}
			})
		})
	}
}

// The turns of a layer that an image has twice are taken at once, where layers are unpacked at the same time. Who waits for the upper one waits
// as long as that is being unpacked, however long ago the lower one was.
func TestTurnOfALayerThatIsUnpackedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, of := digest.FromString("a unpacked"), layerOf("a").Digest
		lower, upper := "sn://overlayfs/"+a.String(), "sn://overlayfs/"+identity.ChainID([]digest.Digest{a, a}).String()
		var p pulls
		first, second, third := p.of("registry.test/app", "alice"), p.of("registry.test/app", "alice"), p.of("registry.test/app", "alice")
		for _, l := range []*locker{first, second, third} {
			l.layers.image(t, configOf(a, a), []ocispec.Descriptor{layerOf("a"), layerOf("a")})
		}
		waits(t, first, lower)
		waits(t, first, upper)
		ended := first.progress.unpacks(of)
		time.Sleep(time.Second)
		ended()
		ended = first.progress.unpacks(of) // above it
		time.AfterFunc(time.Hour, ended)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, tenth := waits(t, third, lower), 6*time.Second; got > tenth+lookInterval {
				t.Errorf("waited %v for the lower one, which is unpacked, want %v", got, tenth)
			}
			third.Unlock(lower)
		}()
		if got, want := waits(t, second, upper), time.Hour+6*time.Second; got < want || got > want+lookInterval {
			t.Errorf("waited %v for the upper one, want %v", got, want)
		}
		<-done
		second.Unlock(upper)
		first.Unlock(lower)
		first.Unlock(upper)
		if len(p.turns.all) > 0 {
			t.Errorf("%v are left", p.turns.all)
		}
	})
}
