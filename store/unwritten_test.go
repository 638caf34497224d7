// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// fullDisk is a database on a disk that is full for a while.
type fullDisk struct {
	DB
	full atomic.Bool
}

func (d *fullDisk) Update(fn func(*bolt.Tx) error) error {
	if d.full.Load() {
		return syscall.ENOSPC
	}
	return d.DB.Update(fn)
}

// A refusal that could not be written, since the disk was full for a moment, is written once the disk
// has room: else a crash, however much later, brings the proof back. It is tried again after a second
// also where others' marks could not be written before it.
func TestRevocationIsWrittenOnceTheDiskHasRoom(t *testing.T) {
	for what, marks := range map[string]int{"alone": 0, "beside others": 7} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, s, records := newStore(t)
			defer s.Close()
			state := State{Verified: verified(one), Access: map[Fingerprint]Proof{alice: {noon, origin.Host}}}
			if _, err := records.Create(ctx, images.Image{Name: name, Target: one, Labels: labels.Present(state.Labels(name, one.Digest))}); err != nil {
				t.Fatal(err)
			}
			disk := &fullDisk{DB: s.db}
			s.db = disk
			disk.full.Store(true)
			for range marks { // pods start from their cached images
				s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
				time.Sleep(2 * flushInterval)
			}
			if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("got %v", err)
			}
			disk.full.Store(false)
			for range 100 {
				if _, ok := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; !ok {
					return
				}
				time.Sleep(flushInterval)
			}
			after := New(disk.DB, records) // what a daemon has that starts after a kill -9
			defer after.Close()
			t.Errorf("10 s after the disk had room a crash brings a refused proof back: of %v", who(ctx, t, after, name))
		})
	}
}

// newCheckOnAFullDisk is a store on a disk that is full, with a check that waits to be written.
func newCheckOnAFullDisk(t *testing.T) (context.Context, *Store, images.Store, *fullDisk) {
	t.Helper()
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	disk := &fullDisk{DB: s.db}
	s.db = disk
	disk.full.Store(true)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	return ctx, s, records, disk
}

// A refusal that takes nothing away, such as a mirror's that has never given anything, waits for
// nothing that others have to write.
func TestRefusalOfNothingOnAFullDisk(t *testing.T) {
	ctx, s, _, disk := newCheckOnAFullDisk(t)
	defer s.Close()
	time.Sleep(2 * flushInterval)
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, Refusal{Host: "mirror.test"}); err != nil {
		t.Errorf("of a host that has given nothing: %v", err)
	}
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Errorf("of one that has, which is not on disk: %v", err)
	}
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{bob}, Refusal{Host: "mirror.test"}); err != nil {
		t.Errorf("of another caller, of a host that has given nothing: %v", err)
	}
	disk.full.Store(false)
}

// The result of a check that could not be written is written once the disk has room, too.
func TestCheckIsWrittenOnceTheDiskHasRoom(t *testing.T) {
	ctx, s, records, disk := newCheckOnAFullDisk(t)
	defer s.Close()
	time.Sleep(3 * flushInterval)
	disk.full.Store(false)
	for range 100 {
		if _, ok := labelsOf(ctx, t, records)[LabelVerifiedDigest]; ok {
			return
		}
		time.Sleep(flushInterval)
	}
	t.Error("a check that made an image one which takes a proof is not on disk 10 s after the disk had room")
}

func TestOneBadRecordDoesNotCostTheOthers(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	tooLong := fmt.Sprintf("%05000d", 1) // containerd refuses labels beyond 4 KiB
	if _, err := records.Create(ctx, images.Image{Name: "registry.test/bad:1", Target: one}); err != nil {
		t.Fatal(err)
	}
	s.MarkVerified(ctx, one.Digest, Verified{Digest: one.Digest, At: noon, By: tooLong}, nil, "registry.test/bad:1")
	s.MarkVerified(ctx, one.Digest, Verified{Digest: one.Digest, At: noon, By: "registry.test"}, nil, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := labelsOf(ctx, t, records)[LabelVerifiedBy]; got != "registry.test" {
		t.Errorf("verified-by is %q", got)
	}
}
