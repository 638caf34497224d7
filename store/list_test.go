// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestList(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, map[string]string{LabelPullSource: "mirror.test/app:1"})
	for _, img := range []images.Image{
		{Name: "registry.test/imported:1", Target: one, Labels: map[string]string{"other": "label"}},
		{Name: "registry.test/marked:1", Target: two},
	} {
		if _, err := records.Create(ctx, img); err != nil {
			t.Fatal(err)
		}
	}
	other := namespaces.WithNamespace(ctx, "default")
	if _, err := records.Create(other, images.Image{Name: "other:1", Target: one, Labels: map[string]string{LabelPullSource: "x/y:1"}}); err != nil {
		t.Fatal(err)
	}
	stale := Stale{Since: noon, Reason: failure.Unreachable}
	s.MarkStale(ctx, two.Digest, stale, "registry.test/marked:1")
	s.MarkStale(ctx, two.Digest, stale, name) // which points elsewhere

	got, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Record{
		name:                     {Name: name, Target: one, State: State{PullSource: "mirror.test/app:1"}},
		"registry.test/marked:1": {Name: "registry.test/marked:1", Target: two, State: State{Stale: stale}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if _, err := s.List(t.Context()); err == nil {
		t.Error("a context without a namespace was accepted")
	}
}

// BenchmarkList reads what a node with 1,000 images has: a tag, a digest and
// an ID each.
func BenchmarkList(b *testing.B) {
	db := newDB(b)
	records := metadata.NewImageStore(db)
	s := New(db, records)
	defer s.Close()
	ctx := namespaces.WithNamespace(b.Context(), "k8s.io")
	labels := State{
		PullSource: "mirror.test:5000/team/app:1", ContentSources: []string{"mirror.test:5000", "registry.test"}, PulledAt: noon,
		Verified: Verified{Digest: one.Digest, At: noon, By: "mirror.test:5000"},
	}.Labels()
	err := db.Update(func(tx *bolt.Tx) error {
		ctx := boltutil.WithTransaction(ctx, tx)
		for i := range 1000 {
			for _, img := range []images.Image{
				{Name: fmt.Sprintf("registry.test/team/app-%d:1", i), Labels: labels},
				{Name: fmt.Sprintf("registry.test/team/app-%d@%s", i, one.Digest), Labels: labels},
				{Name: fmt.Sprintf("sha256:%064d", i)},
			} {
				img.Target = one
				if _, err := records.Create(ctx, img); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		got, err := s.List(ctx)
		if err != nil || len(got) != 2000 {
			b.Fatalf("%d records: %v", len(got), err)
		}
	}
}

// A listing is read again whenever anything has changed, and only then.
func TestListFollowsChanges(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	source := func() string {
		t.Helper()
		all, err := s.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return all[name].PullSource
	}
	if got := source(); got != "" {
		t.Errorf("nothing is there, and its source is %q", got)
	}
	create(ctx, t, records, one, map[string]string{LabelPullSource: "a.test/app:1"})
	if got := source(); got != "a.test/app:1" {
		t.Errorf("created: %q", got)
	}
	if _, err := records.Update(ctx, images.Image{Name: name, Labels: map[string]string{LabelPullSource: "b.test/app:1"}}, "labels"); err != nil {
		t.Fatal(err)
	}
	if got := source(); got != "b.test/app:1" {
		t.Errorf("updated: %q", got)
	}
	s.MarkPulled(ctx, one.Digest, State{PullSource: "c.test/app:1"}, name)
	if got := source(); got != "c.test/app:1" {
		t.Errorf("marked: %q", got)
	}
	if err := s.sync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := source(); got != "c.test/app:1" {
		t.Errorf("written: %q", got)
	}
	if err := records.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	if got := source(); got != "" {
		t.Errorf("deleted: %q", got)
	}
}
