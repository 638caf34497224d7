// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var (
	errNothing  = errors.New("nothing to deliver")
	errFollowed = errors.New("urls are not the registry")
)

// fetcher has some content, and remembers what was taken.
type fetcher struct {
	has   map[digest.Digest][]byte
	taken []digest.Digest
}

func (f *fetcher) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	f.taken = append(f.taken, desc.Digest)
	if len(desc.URLs) > 0 {
		return nil, errFollowed
	}
	b, ok := f.has[desc.Digest]
	if !ok {
		return nil, errNothing
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

var _ transfer.Fetcher = (*fetcher)(nil)

// A registry that has an image can deliver it; one that knows digests cannot.
func TestVerify(t *testing.T) {
	img := newTestImage(t)
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	stored := New(db, 0)
	all := map[digest.Digest][]byte{
		img.target.Digest: img.manifest, img.configDesc.Digest: img.config, img.layerDesc.Digest: img.layer,
	}
	without := func(d digest.Digest, instead []byte) map[digest.Digest][]byte {
		some := maps.Clone(all)
		delete(some, d)
		if instead != nil {
			some[d] = instead
		}
		return some
	}
	wrong := func(right []byte) []byte { return append(bytes.Clone(right[:len(right)-1]), right[len(right)-1]^1) }
	for _, test := range []struct {
		what                string
		has                 map[digest.Digest][]byte
		content, possession error
	}{
		{"everything", all, nil, nil},
		{"nothing", nil, errNothing, errNothing},
		{"no layer", without(img.layerDesc.Digest, nil), errNothing, nil},
		{"another layer", without(img.layerDesc.Digest, wrong(img.layer)), errdefs.ErrFailedPrecondition, nil},
		{"no config", without(img.configDesc.Digest, nil), errNothing, errNothing},
		{"another config", without(img.configDesc.Digest, wrong(img.config)), errdefs.ErrFailedPrecondition, errdefs.ErrFailedPrecondition},
		{"an empty config", without(img.configDesc.Digest, []byte{}), errdefs.ErrFailedPrecondition, errdefs.ErrFailedPrecondition},
	} {
		if err := stored.VerifyContent(ctx, img.target, &fetcher{has: test.has}); !errors.Is(err, test.content) {
			t.Errorf("%s: VerifyContent: %v", test.what, err)
		}
		none := func(digest.Digest) bool { return false }
		if err := stored.VerifyPossession(ctx, img.target, &fetcher{has: test.has}, none); !errors.Is(err, test.possession) {
			t.Errorf("%s: VerifyPossession: %v", test.what, err)
		}
	}
}

// stalled delivers some bytes a second apart, and then none until its context
// ends.
type stalled struct {
	bytes int
	taken int
}

func (f *stalled) Fetch(ctx context.Context, _ ocispec.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(readerFunc(func(p []byte) (int, error) {
		if f.bytes == 0 {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		time.Sleep(time.Second)
		f.bytes--
		f.taken++
		p[0] = 'x'
		return 1, nil
	})), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A transfer lasts as long as bytes come, and no longer than there should be any.
func TestVerifyStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 2 * time.Second
		desc := ocispec.Descriptor{Digest: digest.FromString("something else"), Size: 10}
		i := New(nil, patience)
		begun := time.Now()
		err := i.verifyBlob(t.Context(), desc, &stalled{bytes: 5}, nil)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no byte came for 2s") {
			t.Error(err)
		}
		if took := time.Since(begun); took != 5*time.Second+patience {
			t.Errorf("it ended after %v", took)
		}
		if err := t.Context().Err(); err != nil {
			t.Error(err)
		}
		endless := &stalled{bytes: 1 << 20}
		if err := i.verifyBlob(t.Context(), desc, endless, nil); !errors.Is(err, errdefs.ErrFailedPrecondition) || endless.taken != 11 {
			t.Errorf("%d bytes of 10 were taken: %v", endless.taken, err)
		}
	})
}

// Nothing that is too large for a manifest is read as one, whatever an index says.
func TestLargeDocumentsAreNotRead(t *testing.T) {
	db, ctx := newDB(t, t.TempDir()), namespaces.WithNamespace(t.Context(), "k8s.io")
	data := append([]byte(`{"config":{"digest":"`+digest.FromString("config").String()+`"}}`), bytes.Repeat([]byte(" "), int(docker.MaxManifestSize))...)
	target := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := content.WriteBlob(ctx, db.ContentStore(), "large", bytes.NewReader(data), target); err != nil {
		t.Fatal(err)
	}
	i := New(db, 0)
	possession := i.VerifyPossession(ctx, target, nil, func(digest.Digest) bool { return true })
	_, runnable := i.Runnable(ctx, target, "native")
	for _, err := range []error{possession, runnable} {
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("got %v", err)
		}
	}
}

// A manifest can name content tens of thousands of times: it is fetched once. That it is named as
// something else, too, spares nothing: what is no layer is not unpacked.
func TestVerifyContentOnce(t *testing.T) {
	img := newTestImage(t)
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	other := []byte("a blob that is no layer")
	blob, layer, config := describe("application/x-blob", other), img.layerDesc, img.configDesc
	layer.MediaType, config.MediaType = blob.MediaType, blob.MediaType
	m := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: img.configDesc, Layers: []ocispec.Descriptor{layer, config, img.layerDesc},
	}
	for n := range 10_000 {
		named := blob
		named.Size += int64(n / 2) // more than it has: whoever has the content is content with that
		m.Layers = append(m.Layers, named)
	}
	manifest := mustJSON(t, m)
	target := describe(ocispec.MediaTypeImageManifest, manifest)
	put(ctx, t, db, target, manifest)
	put(ctx, t, db, blob, other)
	f := &fetcher{has: map[digest.Digest][]byte{
		target.Digest: manifest, config.Digest: img.config, layer.Digest: img.layer, blob.Digest: other,
	}}
	if err := New(db, 0).VerifyContent(ctx, target, f); err != nil {
		t.Fatal(err)
	}
	// The manifest, its config, and the layer as none and as one.
	if want := []digest.Digest{target.Digest, config.Digest, layer.Digest, layer.Digest, blob.Digest}; !slices.Equal(f.taken, want) {
		t.Errorf("%d requests, want %d", len(f.taken), len(want))
	}
}
