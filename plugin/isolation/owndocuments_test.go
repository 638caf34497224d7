// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var (
	manifest     = []byte(`{"config": "a private one"}`)
	manifestDesc = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}

	errNotServed = errors.New("it is not served")
)

// registry serves some content, and remembers what was asked for.
type registry struct {
	has   map[digest.Digest][]byte
	asked []digest.Digest
}

func serving(all ...[]byte) *registry {
	r := &registry{has: map[digest.Digest][]byte{}}
	for _, b := range all {
		r.has[digest.FromBytes(b)] = b
	}
	return r
}

// Fetch implements remotes.Fetcher.
func (r *registry) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	r.asked = append(r.asked, desc.Digest)
	b, ok := r.has[desc.Digest]
	if !ok {
		return nil, errNotServed
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(b), io.NopCloser(nil)}, nil
}

// ownView is what a pull of eve's sees that has documents of its own.
func ownView(ctx context.Context, store content.Store) *contents {
	return viewOf(WithOwnDocuments(With(ctx, eve)), store)
}

// put puts content with a label into the store.
func put(ctx context.Context, t *testing.T, store content.Store, desc ocispec.Descriptor, b []byte) {
	t.Helper()
	label := content.WithLabels(map[string]string{"of": "alice"})
	check(t, content.WriteBlob(ctx, store, "put "+desc.Digest.String(), bytes.NewReader(b), desc, label))
}

// wantHidden compares whether a pull can tell that a document is there.
func wantHidden(ctx context.Context, t *testing.T, c *contents, desc ocispec.Descriptor, want bool) {
	t.Helper()
	walked := false
	check(t, c.Walk(ctx, func(info content.Info) error {
		walked = walked || info.Digest == desc.Digest
		return nil
	}))
	_, infoErr := c.Info(ctx, desc.Digest)
	_, updateErr := c.Update(ctx, content.Info{Digest: desc.Digest, Labels: map[string]string{"by": "eve"}}, "labels.by")
	_, readErr := content.ReadBlob(ctx, c, desc)
	for what, err := range map[string]error{"Info": infoErr, "Update": updateErr, "ReaderAt": readErr} {
		if errdefs.IsNotFound(err) != want || !want && err != nil {
			t.Errorf("%s: %v, want hidden: %t", what, err, want)
		}
	}
	if walked == want {
		t.Errorf("Walk visits it: %t", walked)
	}
	if has := c.has(ctx, desc.Digest); has == want {
		t.Errorf("it is there: %t", has)
	}
	if err := c.Delete(ctx, desc.Digest); want && !errdefs.IsNotFound(err) {
		t.Errorf("Delete: %v", err)
	}
}

// What the node has of documents is hidden from a pull with documents of its own, until the
// source has delivered it with its digest. What is there stays as it was.
func TestOwnDocuments(t *testing.T) {
	ctx, view := newContents(t)
	store := view(Scope{}).Store
	put(ctx, t, store, manifestDesc, manifest)
	c := ownView(ctx, store)
	wantHidden(ctx, t, c, manifestDesc, true)

	r := serving()
	if err := remotes.Fetch(ctx, c, r, manifestDesc); !errors.Is(err, errNotServed) {
		t.Errorf("not served: %v", err)
	}
	r.has[manifestDesc.Digest] = make([]byte, len(manifest))
	if err := remotes.Fetch(ctx, c, r, manifestDesc); err == nil {
		t.Error("other bytes count")
	}
	wantHidden(ctx, t, c, manifestDesc, true)

	r = serving(manifest)
	check(t, remotes.Fetch(ctx, c, r, manifestDesc))
	if err := remotes.Fetch(ctx, c, r, manifestDesc); !errdefs.IsAlreadyExists(err) || !slices.Equal(r.asked, []digest.Digest{manifestDesc.Digest}) {
		t.Errorf("named again: %v, asked for %v", err, r.asked)
	}
	info, err := c.Info(ctx, manifestDesc.Digest)
	if err != nil || info.Labels["of"] != "alice" {
		t.Errorf("got %v, %v", info.Labels, err)
	}
	wantHidden(ctx, t, ownView(ctx, store), manifestDesc, true) // another pull
	all, err := store.ListStatuses(ctx)
	if err != nil || len(all) != 0 {
		t.Errorf("unfinished: %v, %v", all, err)
	}
	if err := remotes.Fetch(ctx, viewOf(With(ctx, eve), store), nil, manifestDesc); !errdefs.IsAlreadyExists(err) {
		t.Errorf("a pull without documents of its own: %v", err)
	}
}

// A pull from a source that has shown that it has the image sees its documents. What the image calls a
// layer has not been shown: nobody fetches one whose snapshot is there.
func TestDocumentsThatAreCalledLayers(t *testing.T) {
	ctx, view := newContents(t)
	store := view(Scope{}).Store
	put(ctx, t, store, manifestDesc, manifest)
	called := manifestDesc
	called.MediaType = ocispec.MediaTypeImageLayerGzip
	c, r := viewOf(With(ctx, eve), store), serving()
	if err := remotes.Fetch(ctx, c, r, manifestDesc); !errdefs.IsAlreadyExists(err) || len(r.asked) != 0 {
		t.Errorf("as a manifest: %v, asked for %v", err, r.asked)
	}
	if err := remotes.Fetch(ctx, c, r, called); !errors.Is(err, errNotServed) || len(r.asked) != 1 {
		t.Errorf("as a layer: %v, asked for %v", err, r.asked)
	}
	r = serving(manifest)
	check(t, remotes.Fetch(ctx, c, r, called))
	if err := remotes.Fetch(ctx, c, r, called); !errdefs.IsAlreadyExists(err) || len(r.asked) != 1 {
		t.Errorf("as a layer again: %v, asked for %v", err, r.asked)
	}
}

// A document that comes while it is fetched, or is not there, is delivered and labelled as ever.
func TestOwnDocumentThatComesMeanwhile(t *testing.T) {
	for what, meanwhile := range map[string]bool{"comes meanwhile": true, "is not there": false} {
		ctx, view := newContents(t)
		c := ownView(ctx, view(Scope{}).Store)
		c.labels = func(context.Context, digest.Digest) map[string]string { return map[string]string{"of": "eve"} }
		w, err := c.Writer(ctx, content.WithRef(ref), content.WithDescriptor(manifestDesc))
		check(t, err)
		_, err = w.Write(manifest)
		check(t, err)
		want := "eve"
		if meanwhile {
			put(ctx, t, c.Store, manifestDesc, manifest)
			wantHidden(ctx, t, c, manifestDesc, true)
			want = "alice"
		}
		check(t, w.Commit(ctx, manifestDesc.Size, ""))
		check(t, w.Close())
		info, err := c.Info(ctx, manifestDesc.Digest)
		if err != nil || info.Labels["of"] != want {
			t.Errorf("%s: %v, %v", what, info.Labels, err)
		}
		wantHidden(ctx, t, c, manifestDesc, false)
	}
}

// containerd shares content between namespaces without a request.
func TestOwnDocumentsOfAnotherNamespace(t *testing.T) {
	ctx, view := newContents(t)
	store := view(Scope{}).Store
	put(namespaces.WithNamespace(ctx, "elsewhere"), t, store, manifestDesc, manifest)
	c := ownView(ctx, store)
	r := serving()
	if err := remotes.Fetch(ctx, c, r, manifestDesc); !errors.Is(err, errNotServed) || len(r.asked) != 1 {
		t.Errorf("not served: %v, asked for %v", err, r.asked)
	}
	wantHidden(ctx, t, c, manifestDesc, true)
	check(t, remotes.Fetch(ctx, c, serving(manifest), manifestDesc))
	wantHidden(ctx, t, c, manifestDesc, false)
}

// Layers, and what is larger than any document, are shared: they are not fetched again.
func TestWeightsAreFetchedOnce(t *testing.T) {
	ctx, view := newContents(t)
	store := view(Scope{}).Store
	weights := make([]byte, docker.MaxManifestSize+1)
	few := weights[:10]
	for _, shared := range []struct {
		desc ocispec.Descriptor
		b    []byte
	}{
		{ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: desc.Digest, Size: desc.Size}, layer},
		{ocispec.Descriptor{MediaType: "application/vnd.weights", Digest: digest.FromBytes(weights), Size: int64(len(weights))}, weights},
		{ocispec.Descriptor{MediaType: "application/vnd.weights", Digest: digest.FromBytes(few), Size: int64(len(few))}, few},
	} {
		put(ctx, t, store, shared.desc, shared.b)
		c := ownView(ctx, store)
		if !c.has(ctx, shared.desc.Digest) {
			t.Errorf("%s is not there", shared.desc.MediaType)
		}
		if err := remotes.Fetch(ctx, c, serving(), shared.desc); !errdefs.IsAlreadyExists(err) {
			t.Errorf("%s: %v", shared.desc.MediaType, err)
		}
		_, err := c.Update(ctx, content.Info{Digest: shared.desc.Digest, Labels: map[string]string{"by": "eve"}}, "labels.by")
		check(t, err)
	}
}

// Whatever a descriptor says that a document is, the source is asked for it as where it is not
// on the node: by no claim it finds out whether it is there, in this namespace or another.
func TestClaimsTellNothing(t *testing.T) {
	claims := map[string]ocispec.Descriptor{
		"a layer":    {MediaType: ocispec.MediaTypeImageLayer, Digest: manifestDesc.Digest, Size: manifestDesc.Size},
		"large":      {MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDesc.Digest, Size: docker.MaxManifestSize + 1},
		"of no size": {MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDesc.Digest},
		"weights":    {MediaType: "application/vnd.weights", Digest: manifestDesc.Digest, Size: docker.MaxManifestSize + 1},
	}
	for what, claimed := range claims {
		absent := ""
		for _, where := range []string{"", "elsewhere", "k8s.io"} {
			ctx, view := newContents(t)
			store := view(Scope{}).Store
			if where != "" {
				put(namespaces.WithNamespace(ctx, where), t, store, manifestDesc, manifest)
			}
			c, r := ownView(ctx, store), serving()
			told := fmt.Sprintf("%v, asked for %v", remotes.Fetch(ctx, c, r, claimed), r.asked)
			if where == "" {
				absent = told
			}
			if told != absent {
				t.Errorf("%s, in %q: %s, want %s", what, where, told, absent)
			}
			for _, as := range []ocispec.Descriptor{claimed, manifestDesc} {
				if _, err := c.ReaderAt(ctx, as); !errdefs.IsNotFound(err) {
					t.Errorf("%s, in %q, can be read: %v", what, where, err)
				}
			}
		}
	}
}
