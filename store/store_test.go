// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "registry.test/app:1"

var (
	one  = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("one"), Size: 3}
	two  = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("two"), Size: 3}
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// newDB opens a real metadata database, without content.
func newDB(t testing.TB) *metadata.DB {
	t.Helper()
	b, err := bolt.Open(filepath.Join(t.TempDir(), "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	db := metadata.NewDB(b, nil, nil)
	if err := db.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func newStore(t *testing.T) (context.Context, *Store, images.Store) {
	t.Helper()
	db := newDB(t)
	records := metadata.NewImageStore(db)
	return namespaces.WithNamespace(t.Context(), "k8s.io"), New(db, records), records
}

func create(ctx context.Context, t *testing.T, records images.Store, target ocispec.Descriptor, labels map[string]string) {
	t.Helper()
	if _, err := records.Create(ctx, images.Image{Name: name, Target: target, Labels: labels}); err != nil {
		t.Fatal(err)
	}
}

// bound returns labels of pullwarden's for the record of that name.
func bound(name string, target ocispec.Descriptor, all map[string]string) map[string]string {
	return labels.Overlay(all, map[string]string{LabelRecord: binding(name, target.Digest)})
}

// closedDB lets no change through before it is opened. It tells of the first that
// waits.
type closedDB struct {
	DB
	open, waits chan struct{}
}

func (c *closedDB) Update(fn func(*bolt.Tx) error) error {
	select {
	case c.waits <- struct{}{}:
	default:
	}
	<-c.open
	return c.DB.Update(fn)
}

// keyAt is the key of marks of a record as it is now.
func keyAt(ctx context.Context, t *testing.T, records images.Store, name string) key {
	t.Helper()
	img, err := records.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return keyOf("k8s.io", img)
}

func createdAt(ctx context.Context, t *testing.T, records images.Store, name string) time.Time {
	t.Helper()
	return time.Unix(0, keyAt(ctx, t, records, name).created)
}

func labelsOf(ctx context.Context, t *testing.T, records images.Store) map[string]string {
	t.Helper()
	img, err := records.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return img.Labels
}

func TestMarksAreSeenAtOnceAndWrittenLater(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, map[string]string{"other": "kept", LabelStaleSince: "2026-01-01T00:00:00Z", LabelStaleReason: "unreachable"})

	v := Verified{Digest: one.Digest, At: noon, By: "registry.test"}
	s.MarkVerified(ctx, one.Digest, v, nil, name)
	got, err := s.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(State{Verified: v, Restricted: true}, got.State); diff != "" {
		t.Errorf("state before the write (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"other":             "kept",
		LabelRecord:         one.Digest.String() + " " + name,
		LabelVerifiedDigest: one.Digest.String(),
		LabelVerifiedAt:     "2026-01-02T12:00:00Z",
		LabelVerifiedBy:     "registry.test",
	}
	if diff := cmp.Diff(want, labelsOf(ctx, t, records)); diff != "" {
		t.Errorf("labels after the write (-want +got):\n%s", diff)
	}
}

func TestMarksOfOneTargetAddUp(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	v := Verified{Digest: one.Digest, At: noon, By: "registry.test"}
	stale := Stale{Since: noon.Add(time.Hour), Reason: StaleReason(failure.Unavailable)}
	s.MarkVerified(ctx, one.Digest, v, nil, name)
	s.MarkStale(ctx, one.Digest, stale, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(State{Verified: v, Stale: stale, Restricted: true}, Decode(name, one.Digest, labelsOf(ctx, t, records))); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// A mirror's word in the place of the registry makes proofs hold, beside the last check
// or without any; the next check takes its place and leaves the proofs.
func TestMarkMirrored(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	byMirror, v := Proof{noon, "mirror.test"}, Verified{Digest: one.Digest, At: noon.Add(time.Hour), By: "registry.test"}
	stale := Stale{Since: noon, Reason: MirrorFallback}
	s.MarkMirrored(ctx, one.Digest, Verified{At: noon, By: byMirror.By}, by(alice), name)
	s.MarkStale(ctx, one.Digest, stale, name)
	want := State{MirrorDigest: one.Digest, Stale: stale, Restricted: true, Access: map[Fingerprint]Proof{alice: byMirror}}
	wantState(ctx, t, s, want)
	s.MarkVerified(ctx, one.Digest, v, by(bob), name)
	checked := State{Verified: v, Restricted: true, Access: map[Fingerprint]Proof{alice: byMirror, bob: {v.At, v.By}}}
	wantState(ctx, t, s, checked)
	if err := s.sync(ctx, noMarks); err != nil { // what is not on disk yet is not kept beside another word
		t.Fatal(err)
	}
	s.MarkMirrored(ctx, one.Digest, Verified{At: noon, By: byMirror.By}, by(bob), name)
	checked.MirrorDigest, checked.Access[bob] = one.Digest, byMirror
	checked.Earlier = map[Fingerprint]Proof{bob: {v.At, v.By}}
	wantState(ctx, t, s, checked)

	// Without any proof left, it is still nobody's.
	s.MarkPulled(ctx, one.Digest, pulled(want), name)
	for _, f := range []Fingerprint{alice, bob} {
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{f}, origin, Refusal{Host: byMirror.By}); err != nil {
			t.Fatal(err)
		}
	}
	want.Access = nil
	wantState(ctx, t, s, want)
	wantState(ctx, t, s, Decode(name, one.Digest, labelsOf(ctx, t, records)))
}

func wantState(ctx context.Context, t *testing.T, s *Store, want State) {
	t.Helper()
	got, err := s.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.State); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// A mark is never written to a record that has moved on, nor shown for it.
func TestMarkHoldsForItsTargetOnly(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, two, nil)
	s.MarkVerified(ctx, one.Digest, Verified{Digest: one.Digest, At: noon, By: "registry.test"}, nil, name, "registry.test/gone:1")
	got, err := s.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(State{}, got.State); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if labels := labelsOf(ctx, t, records); len(labels) != 0 {
		t.Errorf("labels %v were written for another target", labels)
	}
	if _, err := records.Get(ctx, "registry.test/gone:1"); !errdefs.IsNotFound(err) {
		t.Errorf("a mark made a record: %v", err)
	}
}

// No record ever claims a digest that it does not have, however changes of its
// target and marks interleave.
func TestNoLabelEverLies(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			target := []ocispec.Descriptor{one, two}[i%2]
			if _, err := records.Update(ctx, images.Image{Name: name, Target: target}, "target", "labels"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			d := []ocispec.Descriptor{one, two}[i%2].Digest
			s.MarkVerified(ctx, d, Verified{Digest: d, At: noon, By: "registry.test"}, nil, name)
		}
	})
	seen := 0
	for deadline := time.Now().Add(20 * time.Second); seen < 20 && time.Now().Before(deadline); {
		img, err := records.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		claim := img.Labels[LabelVerifiedDigest]
		if claim == "" {
			continue
		}
		seen++
		if claim != img.Target.Digest.String() {
			t.Errorf("the record points at %s and claims %s", img.Target.Digest, claim)
			break
		}
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no mark was ever written: the test shows nothing")
	}
}

func TestGetKnowsNothingOfOtherNamespaces(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	if _, err := s.Get(namespaces.WithNamespace(ctx, "default"), name); !errdefs.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
	if _, err := s.Get(t.Context(), name); err == nil {
		t.Error("a context without a namespace was accepted")
	}
}
