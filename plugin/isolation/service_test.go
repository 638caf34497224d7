// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
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

// max_concurrent_unpacks bounds the unpacking of all pulls together; 1, which is
// containerd's default, bounds none.
func TestUnpacksOfAllPulls(t *testing.T) {
	for limit, want := range map[int]int{1: 6, 2: 2} {
		synctest.Test(t, func(t *testing.T) {
			a := &slowApplier{}
			given := []unpack.Platform{{Applier: a}, {Applier: a}}
			s := NewService(Config{Transfer: local.TransferConfig{MaxConcurrentUnpacks: limit, UnpackPlatforms: given}})
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					_, err := s.config.Transfer.UnpackPlatforms[i%2].Applier.Apply(t.Context(), desc, nil)
					check(t, err)
				})
			}
			all.Wait()
			if got := a.most; got != want {
				t.Errorf("limit %d: %d at once, want %d", limit, got, want)
			}
			if given[0].Applier != diff.Applier(a) {
				t.Error("the platforms that were given have changed")
			}
		})
	}
}
