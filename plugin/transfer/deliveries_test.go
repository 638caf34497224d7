// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/store"
)

// planOwn pulls an image from a host that has to deliver the documents, and returns the sources
// that the tag's record then tells.
func (n *node) planOwn(img *fakeImage, host string) (source, content string) {
	n.t.Helper()
	if err := n.pullOf(&fakeSource{fakeImage: img, host: host}, appName, true); err != nil {
		n.t.Fatal(err)
	}
	labels := own(n.labels(appName))
	return labels["pull-source"], labels["content-sources"]
}

// pullOf pulls from a source that has to deliver the documents, or has done so before.
func (n *node) pullOf(source *fakeSource, name string, own bool, opts ...image.StoreOpt) error {
	service := n.Around(isolation.NewService(isolation.Config{
		Contents: n.contents, Images: n.images, Transfer: transferlocal.TransferConfig{Leases: n.leases},
	}))
	p := &Plan{
		Reference: name, Source: source, OwnDocuments: own,
		Scope: isolation.Source{Repository: source.host + "/app", Caller: source.host}.Scope(),
		State: func(digest.Digest, store.State) store.State { return store.State{} },
	}
	return service.Pull(n.ctx, p, image.NewStore(name, opts...))
}

// An image whose source has delivered the documents came from there, and its layers from where
// they came from. What is said of the content stays, also where nothing is.
func TestSourcesOfOwnDocuments(t *testing.T) {
	for what, imported := range map[string]bool{"pulled": false, "imported": true} {
		n := newNode(t, true)
		img := newImage("a layer")
		wantSource, want := "a/app:1", "a"
		if imported {
			wantSource, want = "", ""
			for _, desc := range append([]ocispec.Descriptor{img.desc, img.config}, img.layers...) {
				n.put(desc, img.blobs[desc.Digest])
			}
		} else if source, _ := n.mustPlan(img, "a", nil); source != wantSource {
			t.Fatalf("pull-source is %q", source)
		}
		wantContent := map[bool]string{true: "", false: "b,a"}[imported]
		if source, content := n.planOwn(img, "b"); source != "b/app:1" || content != wantContent {
			t.Errorf("%s: %q and %q", what, source, content)
		}
		n.wantContent(img.desc, wantSource, want)
		n.wantContent(img.config, "", want)
		n.wantContent(img.layers[0], "", want)
		if left := n.tracker.Load().contents.pending.Len(); left > 0 {
			t.Errorf("%s: %d downloads are remembered for no use", what, left)
		}
	}
	n := newNode(t, true)
	img := newImage("a layer")
	if source, content := n.planOwn(img, "b"); source != "b/app:1" || content != "" {
		t.Errorf("new: %q and %q", source, content)
	}
	n.wantContent(img.desc, "b/app:1", "b")
	n.wantContent(img.layers[0], "", "b")
}

// What a source has begun to send, and not sent, came from who has sent it since: to a pull
// with documents of its own, too.
func TestSourcesOfLayersThatOthersFinished(t *testing.T) {
	for what, imported := range map[string]bool{"pulled": false, "imported": true} {
		n := newNode(t, true)
		img := newImage("a layer")
		layer := img.layers[0]
		cut := &fakeSource{fakeImage: img, host: "b", cut: map[digest.Digest]int{layer.Digest: 3}}
		if err := n.pullOf(cut, appName, true); !errors.Is(err, errGone) {
			t.Fatalf("the host goes away: %v", err)
		}
		want, wantUnknown := "b,a", ""
		if imported {
			want, wantUnknown = "", "true"
			n.put(layer, img.blobs[layer.Digest])
		} else {
			n.fetch(img, "a")
		}
		if source, content := n.planOwn(img, "b"); source != "b/app:1" || content != want {
			t.Errorf("%s: %q and %q, want the content sources %q", what, source, content, want)
		}
		if unknown := own(n.labels(appName))["unknown-sources"]; unknown != wantUnknown {
			t.Errorf("%s: unknown is %q, want %q", what, unknown, wantUnknown)
		}
	}
}

// Another repository that has once delivered the same is no source of an image whose own
// source has delivered it since: not of another tag, nor of what is known by its digest. A layer
// of unknown source, of an imported base, changes nothing in that.
func TestSourcesOfAnotherTagOfOwnDocuments(t *testing.T) {
	for what, unknown := range map[string]string{"all pulled": "", "a base imported": "true"} {
		n := newNode(t, true)
		img := newImage("a layer", "the base")
		if base := img.layers[1]; unknown != "" {
			n.put(base, img.blobs[base.Digest])
		}
		const second = "registry.test/app:2"
		canonical := "registry.test/app@" + img.desc.Digest.String()
		for _, pull := range []struct {
			host, name string
			own        bool
			removed    string
		}{{"eve", "eve.test/app:1", true, ""}, {"b", appName, true, ""}, {"b", second, false, ""}, {"b", second, false, canonical}} {
			if pull.removed != "" {
				if err := n.images.Delete(n.ctx, pull.removed); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.pullOf(&fakeSource{fakeImage: img, host: pull.host}, pull.name, pull.own); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{appName, second} {
			got := own(n.labels(name))
			if got["pull-source"] != "b/app:1" || got["content-sources"] != "b,eve" || got["unknown-sources"] != unknown {
				t.Errorf("%s: %s: %v", what, name, got)
			}
		}
	}
}

// Another registry that has delivered, under a name of its own, what an index has for other
// platforms is no source of that index, which its own registry delivers afterwards with all that
// the node needs of it. Of some nodes one of the platforms could run.
func TestSourcesOfOtherPlatforms(t *testing.T) {
	here := platforms.DefaultSpec()
	for _, arch := range []string{"s390x", "386"} {
		n := newNode(t, true)
		there := ocispec.Platform{OS: "linux", Architecture: arch}
		other, img := newImage("of another platform"), newImage("a layer")
		ours, theirs := img.desc, other.desc
		ours.Platform, theirs.Platform = &here, &there
		img.desc = img.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{
			MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{theirs, ours},
		})
		err := n.pullOf(&fakeSource{fakeImage: other, host: "eve"}, "eve.test/app:1", true) // a manifest, for whichever platform
		if err == nil {
			err = n.pullOf(&fakeSource{fakeImage: img, host: "b"}, appName, true, image.WithPlatforms(here))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := own(n.labels(appName)); got["pull-source"] != "b/app:1" || got["content-sources"] != "" || got["unknown-sources"] != "" {
			t.Errorf("%s: the image has the labels %v", arch, got)
		}
	}
}
