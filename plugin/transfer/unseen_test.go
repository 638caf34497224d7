// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// After a pull of which nobody has seen from whom it fetched, a record says the sources of before, and that not all are known
// where something of the image has come without a source.
func TestUnseen(t *testing.T) {
	known := store.State{PullSource: "a/app:1", PulledAt: noon}
	unknown, compared := known, known
	unknown.UnknownSources = true
	compared.Compared = true
	none := func(*node, *fakeImage) {}
	refetched := func(which func(*fakeImage) ocispec.Descriptor) func(*node, *fakeImage) {
		return func(n *node, img *fakeImage) {
			desc := which(img)
			n.discard(desc)
			n.put(desc, img.blobs[desc.Digest])
		}
	}
	manifest := func(img *fakeImage) ocispec.Descriptor { return img.desc }
	config := func(img *fakeImage) ocispec.Descriptor { return img.config }
	layer := func(img *fakeImage) ocispec.Descriptor { return img.layers[1] }
	for what, tc := range map[string]struct {
		fetched      func(*node, *fakeImage)
		before, want store.State
	}{
		"nothing":           {none, known, known},
		"the manifest":      {refetched(manifest), known, unknown},
		"the config":        {refetched(config), known, unknown},
		"a layer":           {refetched(layer), known, known}, // which tells of itself
		"compared":          {refetched(manifest), compared, compared},
		"not all was known": {none, unknown, unknown},
		"none was recorded": {none, store.State{PulledAt: noon}, store.State{PulledAt: noon}},
		"a layer is discarded, and its snapshot is there": {
			func(n *node, img *fakeImage) { n.discard(layer(img)) }, known, known,
		},
		"the config is not there": {func(n *node, img *fakeImage) { n.discard(config(img)) }, known, unknown},
		"a config that another pull has brought since": {func(n *node, img *fakeImage) {
			desc := config(img)
			n.discard(desc)
			n.putSome(&fakeImage{blobs: map[digest.Digest][]byte{desc.Digest: img.blobs[desc.Digest]}}, "b")
		}, known, known},
	} {
		n := newNode(t, true)
		img := newImage("one", "two")
		n.putSome(img, "a")
		tc.fetched(n, img)
		if diff := cmp.Diff(tc.want, n.Unseen(n.ctx, img.desc)(tc.before)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// Where sources are not tracked, none is known.
func TestUnseenUntracked(t *testing.T) {
	n := newNode(t, false)
	if s := n.Unseen(n.ctx, newImage().desc)(store.State{PullSource: "a/app:1"}); !s.UnknownSources {
		t.Errorf("%+v", s)
	}
}

// The list of an image's hosts has no room for all, and the labels of its layers have all: none is counted twice, by a pull that nobody has
// seen, and by one that finds everything.
func TestHostsBeyondTheListCountOnce(t *testing.T) {
	n := newNode(t, true)
	const layers = 20
	var texts []string
	for i := range layers {
		texts = append(texts, fmt.Sprint("layer ", i))
	}
	img := newImage(texts...)
	put := func(d ocispec.Descriptor, host string) {
		n.putSome(&fakeImage{blobs: map[digest.Digest][]byte{d.Digest: img.blobs[d.Digest]}}, host)
	}
	put(img.desc, "a")
	put(img.config, "a")
	hosts := []string{"a"}
	for i, l := range img.layers {
		hosts = append(hosts, fmt.Sprintf("%c%s.test", 'a'+i, strings.Repeat("x", 55)))
		put(l, hosts[i+1])
	}
	for what, pull := range map[string]func(store.State) store.State{
		"unseen": func(s store.State) store.State { return n.Unseen(n.ctx, img.desc)(s) },
		"seen": func(s store.State) store.State {
			all, err := n.tracker.Load().contents.ofImage(n.ctx, img.desc, &deliveries{})
			if err != nil {
				t.Fatal(err)
			}
			return (&labelledRecords{sources: &all}).withSources(s, s)
		},
	} {
		s := store.State{PullSource: "a/app:1", PulledAt: noon, ContentSources: hosts}
		for range 3 {
			s = store.Decode(appName, img.desc.Digest, s.Labels(appName, img.desc.Digest))
			if total := len(s.ContentSources) + s.MoreSources; total != len(hosts) {
				t.Fatalf("%s: %d hosts, want %d: %+v", what, total, len(hosts), s)
			}
			s = pull(s)
		}
	}
}

// It looks on while others fetch: what has come of a download, and is not written yet, is not forgotten.
func TestUnseenForgetsNobodysDownload(t *testing.T) {
	n := newNode(t, true)
	img := newImage("one")
	n.putSome(img, "a")
	config := img.config
	n.discard(config)
	contents := n.tracker.Load().contents
	contents.add(n.ctx, config.Digest, provenance.Provenance{Hosts: []string{"b"}})
	n.put(config, img.blobs[config.Digest])
	n.Unseen(n.ctx, img.desc)
	got, err := contents.persist(n.ctx, config.Digest)
	if want := (provenance.Provenance{Hosts: []string{"b"}}); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// besideUnseen is a source beside which a layer comes that nobody sees coming, and is there first.
type besideUnseen struct {
	*fakeSource
	n     *node
	layer ocispec.Descriptor
}

func (s *besideUnseen) Fetcher(context.Context, string) (transfer.Fetcher, error) { return s, nil }

func (s *besideUnseen) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	r, err := s.fakeSource.Fetch(ctx, desc)
	if err != nil || desc.Digest != s.layer.Digest {
		return r, err
	}
	fetched, ok := r.(*fakeReader)
	if !ok {
		return r, nil
	}
	read, put := fetched.read, false
	fetched.read = func() {
		read()
		if !put {
			put = true
			s.n.put(desc, s.blobs[desc.Digest])
		}
	}
	return fetched, nil
}

// The host from which a pull has fetched a layer is its source, also where an import, say, has brought the same first: under
// allowed_sources the bytes would be compared with those that it has served just now.
func TestSourceBesideAnUnseenDownload(t *testing.T) {
	n := newNode(t, true)
	img := newImage("one", "two")
	if err := n.plan(&besideUnseen{&fakeSource{fakeImage: img, host: "a"}, n, img.layers[0]}, store.State{}); err != nil {
		t.Fatal(err)
	}
	n.wantContent(img.layers[0], "", "a")
	n.wantContent(img.layers[1], "", "a")
}
