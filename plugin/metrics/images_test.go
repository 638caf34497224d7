// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/namespace"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// listing lists the same records each time.
func listing(records ...images.Image) func(context.Context, ...string) ([]images.Image, error) {
	return func(ctx context.Context, _ ...string) ([]images.Image, error) {
		if namespace, _ := namespaces.Namespace(ctx); namespace != "k8s.io" {
			return nil, errors.New("the namespace is " + namespace)
		}
		return records, nil
	}
}

// collectorOf collects from that list, of which nothing is pinned.
func collectorOf(list func(context.Context, ...string) ([]images.Image, error)) imageCollector {
	return newImageCollector(Sources{Images: list, Pinned: func(context.Context, []images.Image) (int, int64) { return 0, 0 }})
}

func record(name string, d digest.Digest, s store.State, writtenFor string) images.Image {
	return images.Image{Name: name, Target: ocispec.Descriptor{Digest: d}, Labels: s.Labels(writtenFor, d)}
}

// A stale mark counts on the record that it was written for: not by digest a second
// time, nor on a tag that was moved or copied since.
func TestStaleImages(t *testing.T) {
	t.Parallel()
	const tag = "registry.test/app:1"
	target := digest.FromString("one")
	canonical := "registry.test/app@" + target.String()
	state := store.State{Stale: store.Stale{Since: time.Unix(1, 0), Reason: store.StaleReason(failure.Unreachable)}}
	moved := record("registry.test/moved:1", target, state, "registry.test/moved:1")
	moved.Target.Digest = digest.FromString("two")
	got := gather(t, collectorOf(listing(
		record(tag, target, state, tag),
		record(canonical, target, state, canonical),
		record("registry.test/copy:1", target, state, tag),
		moved,
	)))
	if got := got["pullwarden_stale_images"]; got != 1 {
		t.Errorf("%v images are stale, want 1", got)
	}
}

// A check of a tag counts for it alone; an image that a registry was asked about under
// another name of its repository, or for a proof, is not open.
func TestOpenAndUncheckedImages(t *testing.T) {
	t.Parallel()
	one, two := digest.FromString("one"), digest.FromString("two")
	checked := store.State{
		Verified: store.Verified{Digest: one, At: time.Unix(1, 0), By: "registry.test"},
		Access:   map[store.Fingerprint]store.Proof{store.Anonymous: {At: time.Unix(1, 0), By: "registry.test"}},
	}
	canonical := "registry.test/app@" + one.String()
	wantSeries(t, gather(t, collectorOf(listing(
		record("registry.test/app:1", one, checked, "registry.test/app:1"),
		record(canonical, one, checked, canonical),
		images.Image{Name: one.String(), Target: ocispec.Descriptor{Digest: one}},
		images.Image{Name: "registry.test/app:same", Target: ocispec.Descriptor{Digest: one}},             // unchecked
		images.Image{Name: "registry.test/imported:1", Target: ocispec.Descriptor{Digest: two}},           // open, unchecked
		images.Image{Name: "registry.test/only@" + two.String(), Target: ocispec.Descriptor{Digest: two}}, // open
	))), map[string]float64{"pullwarden_stale_images": 0, "pullwarden_open_images": 2, "pullwarden_unchecked_images": 2, "pullwarden_pinned_images": 0, "pullwarden_pinned_bytes": 0})
}

// Without an answer of the database there are no series, rather than zeros. A scrape
// waits for its time only, and later ones share the pass that still runs.
func TestImagesOfAFailingDatabase(t *testing.T) {
	t.Parallel()
	wantSeries(t, gather(t, collectorOf(func(context.Context, ...string) ([]images.Image, error) {
		return nil, errors.New("broken")
	})), map[string]float64{})

	synctest.Test(t, func(t *testing.T) {
		answer := make(chan []images.Image)
		passes := 0
		c := collectorOf(func(context.Context, ...string) ([]images.Image, error) {
			passes++
			return <-answer, nil
		})
		for range 3 {
			began := time.Now()
			if _, ok := c.count(); ok || time.Since(began) != scrapeTimeout {
				t.Errorf("after %v: %v", time.Since(began), ok)
			}
		}
		go func() { answer <- []images.Image{{Name: "registry.test/app:1"}} }()
		if counts, ok := c.count(); !ok || counts.Open != 1 || passes != 1 {
			t.Errorf("%+v, %v after %d passes", counts, ok, passes)
		}
	})
}

// BenchmarkImages is a scrape on a node with 1,000 images, which have three records each, and so many proofs.
func BenchmarkImages(b *testing.B) {
	for _, proofs := range []int{1, 32} {
		b.Run(fmt.Sprintf("proofs=%d", proofs), func(b *testing.B) { benchmarkImages(b, proofs) })
	}
}

func benchmarkImages(b *testing.B, proofs int) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "meta.db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	records := metadata.NewImageStore(metadata.NewDB(db, nil, nil))
	ctx := namespace.CRI(b.Context())
	access := map[store.Fingerprint]store.Proof{}
	for n := range proofs {
		of := store.Fingerprint(digest.FromString(strconv.Itoa(n)).Encoded()[:32])
		access[of] = store.Proof{At: time.Unix(1, 0), By: "registry.test"}
	}
	for n := range 1000 {
		d := digest.FromString(strconv.Itoa(n))
		repository := fmt.Sprintf("registry.test/team-%d/app", n)
		state := store.State{
			PullSource: repository + ":1", PulledAt: time.Unix(1, 0),
			Verified: store.Verified{Digest: d, At: time.Unix(1, 0), By: "registry.test"},
			Access:   access,
		}
		for _, name := range []string{repository + ":1", repository + "@" + d.String(), d.String()} {
			img := record(name, d, state, name)
			img.Target.Size, img.Target.MediaType = 1, ocispec.MediaTypeImageManifest
			if _, err := records.Create(ctx, img); err != nil {
				b.Fatal(err)
			}
		}
	}
	c := collectorOf(records.List)
	b.ReportAllocs()
	for b.Loop() {
		if counts, ok := c.count(); !ok || counts != (imageCounts{}) {
			b.Fatal(counts, ok)
		}
	}
}
