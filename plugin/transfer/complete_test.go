// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// withData returns the descriptor with its content, for a platform.
func (f *fakeImage) withData(desc ocispec.Descriptor, p ocispec.Platform) ocispec.Descriptor {
	desc.Data, desc.Platform = f.blobs[desc.Digest], &p
	return desc
}

// inData makes images that a node can run and whose documents a pull does not fetch: what
// descriptors of other platforms have as their data. Which they are is said of each.
func inData() map[string]*fakeImage {
	runnable := ocispec.Platform{OS: "linux", Architecture: "386"} // on amd64
	if !platforms.Default().Match(runnable) {
		runnable = ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"} // on arm64
	}
	indexOf := func(img *fakeImage, manifest ocispec.Descriptor) ocispec.Descriptor {
		return img.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{
			MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest},
		})
	}
	manifest, config := withRootFS(newImage()), withRootFS(newImage())
	manifest.desc = indexOf(manifest, manifest.withData(manifest.desc, runnable))
	config.desc = config.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    config.withData(config.config, ocispec.Platform{OS: "plan9", Architecture: "mips"}),
	})
	here := platforms.DefaultSpec()
	nested := config.desc
	nested.Platform = &here
	inIndex := &fakeImage{blobs: config.blobs, config: config.config}
	inIndex.desc = indexOf(inIndex, nested)
	return map[string]*fakeImage{"the manifest": manifest, "the config": config, "the config, in an index": inIndex}
}

// TestPullOfDataIsIncomplete holds that no record is written of an image that containerd would
// run by the data of descriptors.
func TestPullOfDataIsIncomplete(t *testing.T) {
	here := platforms.DefaultSpec()
	for what, img := range inData() {
		n := newNode(t, true)
		if err := n.pullOf(&fakeSource{fakeImage: img, host: "a"}, appName, false, image.WithPlatforms(here)); !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := images.Config(n.ctx, n.contents, img.desc, platforms.Default()); err != nil {
			t.Errorf("%s: containerd reads no data: %v", what, err)
		}
		if labels := n.labels(appName); labels != nil {
			t.Errorf("%s: there is a record with the labels %v", what, labels)
		}
	}
}

// No record is written of an image whose config CRI cannot read: it would show none of them.
func TestPullOfAConfigThatCRICannotRead(t *testing.T) {
	for what, config := range map[string]any{"a text": "text", "a list": []string{}, "a number": map[string]any{"author": 1}} {
		n := newNode(t, true)
		img := newImage("a layer")
		img.config = img.addJSON(ocispec.MediaTypeImageConfig, config)
		img.desc = img.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
			MediaType: ocispec.MediaTypeImageManifest, Config: img.config, Layers: img.layers,
		})
		err := n.pullOf(&fakeSource{fakeImage: img, host: "a"}, appName, false)
		if of, ok := errors.AsType[*documents.Error](err); !ok || of.Document != img.config.Digest || !errors.Is(err, documents.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if labels := n.labels(appName); labels != nil {
			t.Errorf("%s: there is a record with the labels %v", what, labels)
		}
	}
}

// TestSourcesOfData holds that the sources of such an image are unknown, where somebody else has
// pulled it.
func TestSourcesOfData(t *testing.T) {
	for what, img := range inData() {
		n := newNode(t, true)
		document := img.blobs[img.desc.Digest]
		img.blobs = map[digest.Digest][]byte{img.desc.Digest: document}
		n.putSome(img, "a.test")
		if sources, err := n.sourcesOf(img); err != nil || !sources.unknown {
			t.Errorf("%s: %+v, %v", what, sources, err)
		}
	}
}
