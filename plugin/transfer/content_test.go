// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// mustPlan pulls an image, each digest from the host that by names, and
// returns the sources that the tag's record then tells.
func (n *node) mustPlan(img *fakeImage, host string, by map[digest.Digest]string) (source, content string) {
	n.t.Helper()
	if err := n.plan(&fakeSource{fakeImage: img, host: host, by: by}, store.State{}); err != nil {
		n.t.Fatal(err)
	}
	labels := own(n.labels(appName))
	return labels["pull-source"], labels["content-sources"]
}

// The hosts are told in the order in which this pull may ask them (b, a), then
// in that of the content.
func TestSourcesOfAnImage(t *testing.T) {
	img := newImage("first", "second")
	for _, tc := range []struct {
		what            string
		by              map[digest.Digest]string
		source, content string
	}{
		{"one host", nil, "a/app:1", ""},
		{"a layer of another", map[digest.Digest]string{img.layers[1].Digest: "b"}, "a/app:1", "b,a"},
		{"the config of another", map[digest.Digest]string{img.config.Digest: "b"}, "a/app:1", "b,a"},
		{"only the manifest of another", map[digest.Digest]string{img.desc.Digest: "b"}, "b/app:1", "b,a"},
		{"each of another", map[digest.Digest]string{img.config.Digest: "d", img.layers[0].Digest: "c", img.layers[1].Digest: "b"}, "a/app:1", "b,a,d,c"},
	} {
		n := newNode(t, true)
		source, content := n.mustPlan(img, "a", tc.by)
		if source != tc.source || content != tc.content {
			t.Errorf("%s: %q and %q, want %q and %q", tc.what, source, content, tc.source, tc.content)
		}
	}
}

// Content that is there keeps the source of the pull that brought it: the host
// of a later pull is none.
func TestSourcesOfWhatWasThere(t *testing.T) {
	n := newNode(t, true)
	first, second := newImage("shared", "one"), newImage("shared", "two")
	steps := []struct {
		what            string
		img             *fakeImage
		host            string
		source, content string
	}{
		{"first", first, "a", "a/app:1", ""},
		{"a change that shares a layer", second, "b", "b/app:1", "b,a"},
		{"back again", first, "c", "a/app:1", ""},
		{"the same again", first, "d", "a/app:1", ""},
	}
	for _, s := range steps {
		source, content := n.mustPlan(s.img, s.host, nil)
		if source != s.source || content != s.content {
			t.Errorf("%s: %q and %q, want %q and %q", s.what, source, content, s.source, s.content)
		}
	}
	// The record goes, the content stays, because repository@digest holds it.
	if err := n.images.Delete(n.ctx, appName); err != nil {
		t.Fatal(err)
	}
	if source, _ := n.mustPlan(first, "e", nil); source != "a/app:1" {
		t.Errorf("after the record was removed: %q", source)
	}
}

// Content that nobody served has no source.
func TestSourcesOfImports(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer", "another")
	for _, desc := range []ocispec.Descriptor{img.desc, img.config, img.layers[0]} {
		n.put(desc, img.blobs[desc.Digest])
	}
	source, content := n.mustPlan(img, "a", nil)
	if source != "" || content != "a" {
		t.Errorf("%q and %q, want only the second layer's", source, content)
	}
	n = newNode(t, true)
	for d, data := range img.blobs {
		n.put(ocispec.Descriptor{Digest: d, Size: int64(len(data))}, data)
	}
	if source, content = n.mustPlan(img, "a", nil); source != "" || content != "" {
		t.Errorf("%q and %q, want nothing", source, content)
	}
}

// containerd shares content between namespaces without a request: nobody has
// served it to the second.
func TestSourcesOfOtherNamespaces(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	n.mustPlan(img, "a", nil)
	n.ctx = namespaces.WithNamespace(n.ctx, "default")
	if source, content := n.mustPlan(img, "b", nil); source != "" || content != "" {
		t.Errorf("the other namespace has %q and %q", source, content)
	}
}

// An index has what is here of it: manifests of other platforms are not.
func TestSourcesOfAnIndex(t *testing.T) {
	n := newNode(t, true)
	img, foreign := newImage("a layer"), newImage("of another platform")
	here, other := platforms.DefaultSpec(), ocispec.Platform{OS: "plan9", Architecture: "mips"}
	a, b := img.desc, foreign.desc
	a.Platform, b.Platform = &here, &other
	manifest := img.desc.Digest
	img.desc = img.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{b, a}})
	src := &fakeSource{fakeImage: img, host: "a", by: map[digest.Digest]string{manifest: "b"}}
	p := &Plan{Reference: appName, Source: src, State: func(digest.Digest, store.State) store.State { return store.State{} }}
	if err := n.Pull(n.ctx, p, image.NewStore(appName, image.WithPlatforms(here))); err != nil {
		t.Fatal(err)
	}
	labels := own(n.labels(appName))
	if labels["pull-source"] != "a/app:1" || labels["content-sources"] != "b,a" {
		t.Errorf("labels are %v", labels)
	}
}

// A download that another pull goes on with came from both hosts; one that
// starts anew did not.
func TestSourcesOfAResumedDownload(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("kept=%v", kept), func(t *testing.T) {
			n := newNode(t, true)
			img := newImage("a layer that takes two attempts")
			layer := img.layers[0].Digest
			failing := &fakeSource{
				fakeImage: img, host: "a",
				by:  map[digest.Digest]string{layer: "b"},
				cut: map[digest.Digest]int{layer: 5},
			}
			if err := n.plan(failing, store.State{}); !errors.Is(err, errGone) {
				t.Fatalf("the first pull ended with %v", err)
			}
			// The pull has failed, but complete content has its source.
			n.wantContent(img.desc, "a/app:1", "a")
			n.wantContent(img.config, "", "a")
			want := "b,a"
			if !kept {
				want = ""
				if err := n.contents.Abort(n.ctx, "layer-"+layer.String()); err != nil {
					t.Fatal(err)
				}
			}
			if _, content := n.mustPlan(img, "a", nil); content != want {
				t.Errorf("content-sources is %q, want %q", content, want)
			}
			n.wantContent(img.layers[0], "", map[bool]string{true: "b,a", false: "a"}[kept])
			if left := n.tracker.Load().contents.pending.Len(); left > 0 {
				t.Errorf("%d downloads are remembered for no use", left)
			}
		})
	}
}

// wantContent compares the labels of content.
func (n *node) wantContent(desc ocispec.Descriptor, source, hosts string) {
	n.t.Helper()
	info, err := n.contents.Info(n.ctx, desc.Digest)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := info.Labels[store.LabelPullSource]; got != source {
		n.t.Errorf("content of type %s has pull-source %q, want %q", desc.MediaType, got, source)
	}
	if got := info.Labels[store.LabelContentSources]; got != hosts {
		n.t.Errorf("content of type %s has content-sources %q, want %q", desc.MediaType, got, hosts)
	}
}

// Bytes that were thrown away served nobody.
func TestSourcesOfWrongContent(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	layer := img.layers[0]
	wrong := &fakeImage{desc: img.desc, blobs: map[digest.Digest][]byte{}}
	for d, data := range img.blobs {
		wrong.blobs[d] = data
	}
	wrong.blobs[layer.Digest] = []byte("A LAYER")
	if err := n.plan(&fakeSource{fakeImage: wrong, host: "a", by: map[digest.Digest]string{layer.Digest: "evil"}}, store.State{}); err == nil {
		t.Fatal("wrong content was accepted")
	}
	if n.labels(appName) != nil || n.labels(canonicalOf(img)) != nil {
		t.Error("there is a record of it")
	}
	if err := n.contents.Abort(n.ctx, "layer-"+layer.Digest.String()); err != nil {
		t.Fatal(err)
	}
	if source, content := n.mustPlan(img, "b", nil); source != "a/app:1" || content != "b,a" {
		t.Errorf("%q and %q", source, content)
	}
}

// Memory for pending downloads has a bound.
func TestPendingIsBounded(t *testing.T) {
	n := newNode(t, true)
	s := n.tracker.Load().contents
	for i := range maxPending + 10 {
		s.add(n.ctx, digest.FromString(fmt.Sprint(i)), provenance.Provenance{Hosts: []string{"a"}})
	}
	if s.pending.Len() != maxPending {
		t.Errorf("%d downloads are remembered, want %d", s.pending.Len(), maxPending)
	}
	s.add(n.ctx, digest.FromString("nothing"), provenance.Provenance{})
	if s.pending.Contains(keyOf(n.ctx, digest.FromString("nothing"))) {
		t.Error("what nobody served is remembered")
	}
}
