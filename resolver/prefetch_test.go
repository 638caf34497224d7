// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// ahead is a pull from one registry that prefetches all that it names.
type ahead struct {
	registry *resolvertest.Registry
	source   Source
	fetcher  transfer.Fetcher
	manifest ocispec.Manifest
	ended    atomic.Int64 // prefetches
	stop     func()
}

// newAhead reads the manifest of an image with three layers, so that its config and the first
// layers are prefetched.
func newAhead(t *testing.T, downloads int, trouble func(*resolvertest.Registry)) *ahead {
	t.Helper()
	list, hosts := registries(t, 1)
	return aheadOf(t, list[0], hosts, downloads, nil, trouble)
}

// aheadOf is newAhead for the image of a registry.
func aheadOf(t *testing.T, r *resolvertest.Registry, hosts string, downloads int, unpacked func(context.Context, digest.Digest) bool, trouble func(*resolvertest.Registry)) *ahead {
	t.Helper()
	a := &ahead{registry: r}
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	if trouble != nil {
		trouble(a.registry)
	}
	a.registry.Forget()
	a.source, a.stop = s.Source(got.Descriptor).Prefetching(Prefetch{
		Begin: func(context.Context, ocispec.Descriptor) (end func(), ok bool) {
			return func() { a.ended.Add(1) }, true
		},
		Platform: platforms.Default(), Layers: true, Unpacked: unpacked,
	})
	t.Cleanup(a.stop)
	a.source.(transfer.ImageResolverOptionSetter).SetResolverOptions(bounds(downloads)...)
	if a.fetcher, err = a.source.Fetcher(t.Context(), imageRef); err != nil {
		t.Fatal(err)
	}
	rc, err := a.fetcher.Fetch(t.Context(), got.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if a.manifest, err = decode[ocispec.Manifest](rc); err != nil {
		t.Fatal(err)
	}
	return a
}

// asked returns how often content was asked for.
func (a *ahead) asked(d digest.Digest) int {
	return a.registry.Count(func(r resolvertest.Request) bool { return strings.HasSuffix(r.Path, d.String()) })
}

// fetch returns the digest of what a fetch delivers.
func (a *ahead) fetch(t *testing.T, desc ocispec.Descriptor) (digest.Digest, error) {
	t.Helper()
	rc, err := a.fetcher.Fetch(t.Context(), desc)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	return digest.FromReader(rc)
}

// The config and as many layers as leave one download free are asked for at once, and once;
// the source knows of them when they are fetched.
func TestPrefetch(t *testing.T) {
	a := newAhead(t, 3, nil)
	first := append([]ocispec.Descriptor{a.manifest.Config}, a.manifest.Layers[:2]...)
	for _, desc := range first {
		waitFor(t, func() bool { return a.asked(desc.Digest) == 1 })
		if a.source.ServedBy(desc.Digest).Hosts != nil || a.source.Delivered(desc.Digest) {
			t.Errorf("%s counts before it is fetched", desc.Digest)
		}
	}
	for _, desc := range append(first, a.manifest.Layers[2]) {
		if got, err := a.fetch(t, desc); err != nil || got != desc.Digest {
			t.Errorf("got %s, %v, want %s", got, err, desc.Digest)
		}
		if n := a.asked(desc.Digest); n != 1 {
			t.Errorf("%s: %d requests", desc.Digest, n)
		}
		if by := a.source.ServedBy(desc.Digest).Hosts; !slices.Equal(by, []string{a.registry.Host()}) {
			t.Errorf("%s: served by %v", desc.Digest, by)
		}
	}
	if !a.source.Delivered(a.manifest.Config.Digest) {
		t.Error("the config was not delivered")
	}
	a.stop()
	if n := a.ended.Load(); n < 3 {
		t.Errorf("%d prefetches have ended, want 3", n)
	}
}

// A prefetch that fails is nobody's failure or refusal: the fetch asks again. If that fails by else, the refusal counts.
func TestPrefetchFails(t *testing.T) {
	for name, trouble := range map[string]func(*resolvertest.Registry) (undo func()){
		"403":     func(r *resolvertest.Registry) func() { return r.Status(resolvertest.Blobs, 403) },
		"401":     func(r *resolvertest.Registry) func() { return r.Status(resolvertest.Blobs, 401) },
		"503":     func(r *resolvertest.Registry) func() { return r.Status(resolvertest.Blobs, 503) },
		"reset":   func(r *resolvertest.Registry) func() { return r.Reset(resolvertest.Blobs) },
		"breaks":  func(r *resolvertest.Registry) func() { return r.DropMidBlob(50) },
		"corrupt": func(r *resolvertest.Registry) func() { return r.Corrupt(resolvertest.Blobs) },
	} {
		var undo func()
		a := newAhead(t, 1, func(r *resolvertest.Registry) { undo = trouble(r) })
		config := a.manifest.Config
		e := a.source.(*source).ahead.all[config.Digest] // nothing else is prefetched
		<-e.done
		if e.err == nil {
			t.Errorf("%s: the prefetch has succeeded", name)
		}
		if refusals := a.source.Refusals(); len(refusals) > 0 {
			t.Errorf("%s: %v", name, refusals)
		}
		if name == "503" && a.asked(config.Digest) != 1 {
			t.Errorf("503: asked %d times ahead, want once", a.asked(config.Digest))
		}
		undo()
		if name == "403" || name == "401" {
			undo = a.registry.Status(resolvertest.Blobs, 429)
			if _, err := a.fetch(t, config); err == nil || len(a.source.Refusals()) != 1 {
				t.Errorf("%s, and then 429: %v, refusals %v", name, err, a.source.Refusals())
			}
			undo()
		}
		if got, err := a.fetch(t, config); err != nil || got != config.Digest {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
		if failed := a.source.Failure(errors.New("no space")); failed != nil {
			t.Errorf("%s: %v", name, failed)
		}
	}
}

// The end of a pull, or of a fetch that has joined, ends what is prefetched. TestMain sees that
// no goroutine is left.
func TestPrefetchIsCancelled(t *testing.T) {
	a := newAhead(t, 3, func(r *resolvertest.Registry) { r.Hang(resolvertest.Blobs) })
	config := a.manifest.Config
	waitFor(t, func() bool { return a.asked(config.Digest) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	rc, err := a.fetcher.Fetch(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(rc)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_ = rc.Close()
	a.stop()
	if n := a.ended.Load(); n < 3 {
		t.Errorf("%d prefetches have ended, want 3", n)
	}
}

// A layer of which some is here already is fetched from there, whatever is prefetched.
func TestPrefetchedLayerIsSought(t *testing.T) {
	for _, offset := range []int64{0, 1, firstRead, firstRead + 1} {
		a := newAhead(t, 3, nil)
		layer := a.manifest.Layers[0]
		rc, err := a.fetcher.Fetch(t.Context(), layer)
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		seeker := rc.(io.ReadSeeker)
		if at, err := seeker.Seek(offset, io.SeekStart); err != nil || at != offset {
			t.Fatal(at, err)
		}
		rest, err := io.ReadAll(rc)
		if err != nil || int64(len(rest)) != layer.Size-offset {
			t.Fatalf("from %d: %d bytes, %v", offset, len(rest), err)
		}
		if want := map[bool]int{true: 1, false: 2}[offset == 0]; a.asked(layer.Digest) != want {
			t.Errorf("from %d: %d requests, want %d", offset, a.asked(layer.Digest), want)
		}
		// The content store has thrown away what it got.
		if at, err := seeker.Seek(0, io.SeekStart); err != nil || at != 0 {
			t.Fatal(at, err)
		}
		if got, err := digest.FromReader(rc); err != nil || got != layer.Digest {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// The manifest of an index is the one that suits the node best.
func TestPrefetchedPlatform(t *testing.T) {
	suits := func(platform string) ocispec.Descriptor {
		p := platforms.MustParse(platform)
		return ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(platform), Size: 1, Platform: &p,
		}
	}
	var begun []digest.Digest
	p := &prefetcher{all: map[digest.Digest]*prefetched{}, Prefetch: Prefetch{
		Begin: func(_ context.Context, desc ocispec.Descriptor) (func(), bool) {
			begun = append(begun, desc.Digest)
			return nil, false
		},
		Platform: platforms.Only(platforms.MustParse("linux/arm/v7")),
	}}
	attestation := suits("linux/arm/v7")
	attestation.Platform = nil
	p.manifest(nil, []ocispec.Descriptor{attestation, suits("linux/amd64"), suits("linux/arm/v6"), suits("linux/arm/v7"), suits("linux/arm/v5")})
	p.manifest(nil, []ocispec.Descriptor{suits("linux/amd64"), suits("linux/arm/v8")})
	if want := []digest.Digest{digest.FromString("linux/arm/v7")}; !slices.Equal(begun, want) {
		t.Errorf("got %v, want %v", begun, want)
	}
}

// Content that says where it is, or is with its descriptor, is not prefetched.
func TestNotPrefetched(t *testing.T) {
	p := &prefetcher{all: map[digest.Digest]*prefetched{}, Prefetch: Prefetch{
		Begin: func(_ context.Context, desc ocispec.Descriptor) (func(), bool) {
			t.Errorf("%+v", desc)
			return nil, false
		},
	}}
	p.layers.Store(3)
	good := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: otherDigest, Size: 10}
	for _, change := range []func(*ocispec.Descriptor){
		func(d *ocispec.Descriptor) { d.URLs = []string{"https://elsewhere.test/x"} },
		func(d *ocispec.Descriptor) { d.Data = []byte("0123456789") },
		func(d *ocispec.Descriptor) { d.Size = 0 },
		func(d *ocispec.Descriptor) { d.Size = -1 },
		func(d *ocispec.Descriptor) { d.Size = maxKept + 1 },
		func(d *ocispec.Descriptor) { d.Digest = "sha256:x" },
		func(d *ocispec.Descriptor) { d.MediaType = "application/vnd.something.else" },
	} {
		d := good
		change(&d)
		p.document(nil, d)
	}
	p.layersOf(nil, []ocispec.Descriptor{good, {MediaType: ocispec.MediaTypeImageLayer, Digest: "x", Size: 1}})
	p.read(nil, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}, []byte("{"))
	p.read(nil, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex}, []byte("[]"))
}

// A whole pull by containerd asks for nothing twice.
func TestPullThatPrefetches(t *testing.T) {
	list, hosts := registries(t, 2)
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 3}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Absent: true})
	p.prefetch = true
	list[0].Forget()
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, got := list[0].Count(resolvertest.NoProbe), list[0].Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)); n != 5 || got != 4 {
		t.Errorf("%d requests, %d of blobs, want 5 and 4: %+v", n, got, list[0].Requests())
	}
	if served := source.Served().Hosts; !slices.Equal(served, []string{list[0].Host()}) {
		t.Errorf("served by %v", served)
	}
}

func decode[T any](r io.Reader) (v T, err error) {
	err = json.NewDecoder(r).Decode(&v)
	return v, err
}
