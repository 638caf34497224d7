// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// counted is an image store that counts what is read of it.
type counted struct {
	images.Store
	gets []string
}

func (c *counted) Get(ctx context.Context, name string) (images.Image, error) {
	c.gets = append(c.gets, name)
	return c.Store.Get(ctx, name)
}

func TestFirst(t *testing.T) {
	const imported, marked, canonical = "registry.test/imported:1", "registry.test/marked:1", "registry.test/app@sha256:1"
	ctx, s, records := newStore(t)
	defer s.Close()
	reads := &counted{Store: records}
	s.images = reads
	create(ctx, t, records, one, bound(name, one, map[string]string{LabelPullSource: "mirror.test/app:1"}))
	for _, img := range []images.Image{
		{Name: imported, Target: one, Labels: map[string]string{"other": "label"}},
		{Name: marked, Target: two},
		{Name: canonical, Target: one, Labels: bound(canonical, one, map[string]string{LabelPullSource: "mirror.test/app@sha256:1"})},
	} {
		if _, err := records.Create(ctx, img); err != nil {
			t.Fatal(err)
		}
	}
	other := namespaces.WithNamespace(ctx, "default")
	if _, err := records.Create(other, images.Image{Name: imported, Target: one, Labels: bound(imported, one, map[string]string{LabelPullSource: "x/y:1"})}); err != nil {
		t.Fatal(err)
	}
	stale := Stale{Since: noon, Reason: StaleReason(failure.Unreachable)}
	markedKey, movedKey := keyAt(ctx, t, records, marked), keyAt(ctx, t, records, name)
	movedKey.target = two.Digest
	s.mu.Lock() // pending, but out of the writer's sight: it would change the database in between
	s.pending.add(markedKey, bound(marked, two, map[string]string{LabelStaleSince: encodeTime(noon), LabelStaleReason: "unreachable"}))
	s.pending.add(movedKey, bound(name, two, map[string]string{LabelPullSource: "elsewhere"})) // which points elsewhere
	s.mu.Unlock()
	s.listings.changed()

	app := &Record{Name: name, Target: one, CreatedAt: createdAt(ctx, t, records, name), State: State{PullSource: "mirror.test/app:1"}}
	byDigest := &Record{Name: canonical, Target: one, CreatedAt: createdAt(ctx, t, records, canonical), State: State{PullSource: "mirror.test/app@sha256:1"}}
	staleApp := &Record{Name: marked, Target: two, CreatedAt: createdAt(ctx, t, records, marked), State: State{Stale: stale}}
	for _, tc := range []struct {
		what  string
		lists [][]string
		want  []*Record
		reads []string
	}{
		{"nothing is asked", nil, []*Record{}, nil},
		{"an image without names", [][]string{nil}, []*Record{nil}, nil},
		{"a known tag", [][]string{{name, canonical}}, []*Record{app}, []string{name}},
		{"read before", [][]string{{name, canonical}}, []*Record{app}, nil},
		{"nothing known, nothing there", [][]string{{imported, "registry.test/gone:1"}}, []*Record{nil}, []string{imported, "registry.test/gone:1"}},
		{"nothing known, read before", [][]string{{imported}, {"registry.test/gone:1"}}, []*Record{nil, nil}, nil},
		{"only the digest known, one missing in the midst of others", [][]string{{name}, {imported, canonical}, {imported}}, []*Record{app, byDigest, nil}, []string{canonical}},
		{"marked", [][]string{{marked}}, []*Record{staleApp}, []string{marked}},
		{"the same name twice", [][]string{{"a:1"}, {"a:1"}}, []*Record{nil, nil}, []string{"a:1"}},
	} {
		reads.gets = nil
		got, err := s.First(ctx, tc.lists)
		if err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: records (-want +got):\n%s", tc.what, diff)
		}
		if diff := cmp.Diff(tc.reads, reads.gets); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", tc.what, diff)
		}
	}
}

func TestFirstThatCannotRead(t *testing.T) {
	ctx, s, _ := newStore(t)
	defer s.Close()
	if _, err := s.First(t.Context(), nil); err == nil {
		t.Error("a context without a namespace was accepted")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.First(cancelled, [][]string{{name}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got, err := s.First(ctx, [][]string{{name}}); err != nil || got[0] != nil {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// A mark is seen at every moment: pending, being written, and written.
func TestFirstWhileMarksAreWritten(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	for i := range 100 {
		want := fmt.Sprintf("mirror-%d.test", i)
		s.MarkVerified(ctx, one.Digest, Verified{At: noon, By: want}, nil, name)
		written := make(chan error, 1)
		go func() { written <- s.sync(ctx, noMarks) }()
		for done := false; !done; {
			select {
			case err := <-written:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
			}
			got, err := s.First(ctx, [][]string{{name}})
			if err != nil {
				t.Fatal(err)
			}
			if got[0] == nil || got[0].Verified.By != want {
				t.Fatalf("want %s, got %v", want, got[0])
			}
			s.listings.changed() // so that each one reads
		}
	}
}

// between runs a function between the start of a transaction and its reads.
type between struct {
	DB
	fn func()
}

func (b *between) View(fn func(*bolt.Tx) error) error {
	return b.DB.View(func(tx *bolt.Tx) error {
		b.fn()
		return fn(tx)
	})
}

// A mark that is written after the transaction of a reader began is neither in
// what it reads nor pending any more.
func TestFirstWhileAMarkIsWrittenBehindIt(t *testing.T) {
	// A file that need not grow: growing would wait for the reader.
	file, err := bolt.Open(filepath.Join(t.TempDir(), "meta.db"), 0o600, &bolt.Options{InitialMmapSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	db := metadata.NewDB(file, nil, nil)
	if err := db.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	records := metadata.NewImageStore(db)
	reader := &between{DB: db}
	s := New(reader, records)
	defer s.Close()
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	create(ctx, t, records, one, nil)
	k := keyAt(ctx, t, records, name)
	s.mu.Lock() // out of the writer's sight
	s.pending.add(k, bound(name, one, map[string]string{LabelPullSource: "mirror.test/app:1"}))
	s.mu.Unlock()
	starts := 0
	reader.fn = func() {
		starts++
		if err := s.sync(ctx, noMarks); err != nil {
			t.Error(err)
		}
	}
	found, err := s.First(ctx, [][]string{{name}})
	if err != nil || found[0] == nil || found[0].PullSource != "mirror.test/app:1" {
		t.Errorf("found %v, %v", found, err)
	}
	if starts != 2 {
		t.Errorf("%d transactions, want the second to see the mark", starts)
	}
}

// BenchmarkFirst asks for what CRI lists on a node with 1,000 images of a tag,
// a digest and an ID each.
func BenchmarkFirst(b *testing.B) {
	db := newDB(b)
	records := metadata.NewImageStore(db)
	s := New(db, records)
	defer s.Close()
	ctx := namespaces.WithNamespace(b.Context(), "k8s.io")
	state := State{
		PullSource: "mirror.test:5000/team/app:1", ContentSources: []string{"mirror.test:5000", "registry.test"}, PulledAt: noon,
		Verified: Verified{Digest: one.Digest, At: noon, By: "mirror.test:5000"},
	}
	var lists [][]string
	err := db.Update(func(tx *bolt.Tx) error {
		ctx := boltutil.WithTransaction(ctx, tx)
		for i := range 1000 {
			tag, canonical := fmt.Sprintf("registry.test/team/app-%d:1", i), fmt.Sprintf("registry.test/team/app-%d@%s", i, one.Digest)
			lists = append(lists, []string{tag, canonical})
			for _, img := range []images.Image{
				{Name: tag, Labels: state.Labels(tag, one.Digest)},
				{Name: canonical, Labels: state.Labels(canonical, one.Digest)},
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
	for _, bm := range []struct {
		name   string
		change func()
	}{
		{"unchanged", func() {}},
		{"changed", s.listings.changed},
	} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				bm.change()
				got, err := s.First(ctx, lists)
				if err != nil || slices.Contains(got, nil) {
					b.Fatalf("%d records: %v", len(got), err)
				}
			}
		})
	}
}

// A listing is read again whenever anything has changed.
func TestFirstFollowsChanges(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	checked := func(by string) map[string]string {
		state := State{Verified: Verified{Digest: one.Digest, At: noon, By: by}}
		return labels.Present(state.Labels(name, one.Digest))
	}
	checkedBy := func() string {
		t.Helper()
		found, err := s.First(ctx, [][]string{{name}})
		if err != nil {
			t.Fatal(err)
		}
		if found[0] == nil {
			return ""
		}
		return found[0].Verified.By
	}
	if got := checkedBy(); got != "" {
		t.Errorf("nothing is there, and checked by %q", got)
	}
	create(ctx, t, records, one, checked("a.test"))
	if got := checkedBy(); got != "a.test" {
		t.Errorf("created: %q", got)
	}
	if _, err := records.Update(ctx, images.Image{Name: name, Labels: checked("b.test")}, "labels"); err != nil {
		t.Fatal(err)
	}
	if got := checkedBy(); got != "b.test" {
		t.Errorf("updated: %q", got)
	}
	s.MarkVerified(ctx, one.Digest, Verified{At: noon, By: "c.test"}, nil, name)
	if got := checkedBy(); got != "c.test" {
		t.Errorf("marked: %q", got)
	}
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	if got := checkedBy(); got != "c.test" {
		t.Errorf("written: %q", got)
	}
	if err := records.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	if got := checkedBy(); got != "" {
		t.Errorf("deleted: %q", got)
	}
}
