// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer/image"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/store"
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

// checkingSource refuses a config.
type checkingSource struct {
	*fakeSource
	refuses []byte
}

// CheckConfig implements ConfigChecker.
func (s *checkingSource) CheckConfig(config []byte) error {
	if bytes.Equal(config, s.refuses) {
		return errors.New("it has a secret")
	}
	return nil
}

// TestPullOfAConfigWithASecret holds that the source is asked about the config of an image, whatever that is called, and also
// where it is on the node before.
func TestPullOfAConfigWithASecret(t *testing.T) {
	for what, tc := range map[string]struct {
		mediaType string
		there     bool
	}{
		"a config":              {ocispec.MediaTypeImageConfig, false},
		"a config that is here": {ocispec.MediaTypeImageConfig, true},
		"of another type":       {"application/x-config", false},
		"… that is here":        {"application/x-config", true},
	} {
		n := newNode(t, true)
		img := withRootFS(newImage())
		img.config.MediaType = tc.mediaType
		img.desc = img.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: img.config})
		data := img.blobs[img.config.Digest]
		if tc.there {
			n.put(img.config, data)
		}
		service := n.Around(isolation.NewService(isolation.Config{
			Contents: n.contents, Images: n.images, Transfer: transferlocal.TransferConfig{Leases: n.leases},
		}))
		pull := func(refuses []byte) error {
			source := &checkingSource{&fakeSource{fakeImage: img, host: "a"}, refuses}
			plan := &Plan{Reference: appName, Source: source, State: func(digest.Digest, store.State) store.State { return store.State{} }}
			return service.Pull(n.ctx, plan, image.NewStore(appName))
		}
		err := pull(data)
		if of, ok := errors.AsType[*documents.Error](err); !ok || of.Document != img.config.Digest || !errors.Is(err, documents.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if labels := n.labels(appName); labels != nil {
			t.Errorf("%s: there is a record with the labels %v", what, labels)
		}
		if err := pull(nil); err != nil {
			t.Errorf("%s: %v", what, err)
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
