// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/unpack"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// slowApplier takes a second, and counts how many layers it unpacks at once.
type slowApplier struct {
	mu            sync.Mutex
	running, most int
}

func (a *slowApplier) Apply(context.Context, ocispec.Descriptor, []mount.Mount, ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	a.count(1)
	time.Sleep(time.Second)
	a.count(-1)
	return ocispec.Descriptor{}, nil
}

func (a *slowApplier) count(change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running += change
	a.most = max(a.most, a.running)
}

// unpack has pulls unpack so many layers each, and returns how many were unpacked at once,
// and how long it took.
func (a *slowApplier) unpack(t *testing.T, limit, pulls, layers int) (most int, took time.Duration) {
	t.Helper()
	given := []unpack.Platform{{Applier: a}, {Applier: a}}
	s := NewService(Config{Transfer: local.TransferConfig{MaxConcurrentUnpacks: limit, UnpackPlatforms: given}})
	began := time.Now()
	var all sync.WaitGroup
	for range pulls {
		platforms := s.unpackPlatforms(new(progress))
		for i := range layers {
			all.Go(func() {
				_, err := platforms[i%2].Applier.Apply(t.Context(), desc, nil)
				check(t, err)
			})
		}
	}
	all.Wait()
	if given[0].Applier != diff.Applier(a) {
		t.Error("the platforms that were given have changed")
	}
	return a.most, time.Since(began)
}

// max_concurrent_unpacks bounds what each pull unpacks at the same time, and of all pulls
// together what is more than one layer of each; 1, which is containerd's default, bounds none.
func TestUnpacksOfAllPulls(t *testing.T) {
	for _, tc := range []struct{ limit, pulls, layers, most, seconds int }{
		{limit: 1, pulls: 2, layers: 3, most: 6, seconds: 1},
		{limit: 2, pulls: 1, layers: 6, most: 2, seconds: 3},
		{limit: 4, pulls: 1, layers: 6, most: 4, seconds: 2},
		{limit: 2, pulls: 6, layers: 1, most: 6, seconds: 1},
		{limit: 3, pulls: 4, layers: 2, most: 6, seconds: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			most, took := new(slowApplier).unpack(t, tc.limit, tc.pulls, tc.layers)
			if most != tc.most || took != time.Duration(tc.seconds)*time.Second {
				t.Errorf("limit %d, %d pulls of %d layers: %d at once, %v, want %d, %d s", tc.limit, tc.pulls, tc.layers, most, took, tc.most, tc.seconds)
			}
		})
	}
}

// hangingApplier unpacks for as long as nobody cancels it.
type hangingApplier struct{}

func (hangingApplier) Apply(ctx context.Context, _ ocispec.Descriptor, _ []mount.Mount, _ ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	<-ctx.Done()
	return ocispec.Descriptor{}, ctx.Err()
}

// A pull whose layers take for ever to unpack holds up no other pull, and what waits behind it
// ends with its context.
func TestUnpacksThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(Config{Transfer: local.TransferConfig{MaxConcurrentUnpacks: 2, UnpackPlatforms: []unpack.Platform{{Applier: hangingApplier{}}}}})
		ctx, cancel := context.WithCancel(t.Context())
		var hanging sync.WaitGroup
		pull := s.unpackPlatforms(new(progress))
		for range 4 {
			hanging.Go(func() {
				if _, err := pull[0].Applier.Apply(ctx, desc, nil); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		other, began := s.unpackPlatforms(new(progress))[0].Applier.(*limitedApplier), time.Now()
		other.next = &slowApplier{}
		for range 3 {
			_, err := other.Apply(t.Context(), desc, nil)
			check(t, err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("three layers took %v", took)
		}
		cancel()
		hanging.Wait()
		if len(s.further) > 0 {
			t.Error("a slot is left taken")
		}
	})
}
