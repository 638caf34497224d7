// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Documents that containerd cannot read are the registry's fault, whoever would read them first: a tag that is
// moved to one leaves the cached image, where a rule says so.
func TestDocumentsThatContainerdCannotRead(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	raw := func(text, mediaType string) ocispec.Descriptor {
		f.served[digest.FromString(text)] = []byte(text)
		return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(text), Size: int64(len(text))}
	}
	ofText, other := good, good
	other.Annotations = map[string]string{"a": "manifest"}
	asIndex := f.add(t, other)
	asIndex.MediaType = ocispec.MediaTypeImageIndex
	ofText.Config = raw("text of a config", ocispec.MediaTypeImageConfig)
	entry := func(mediaType string) ocispec.Descriptor {
		here, m := platforms.DefaultSpec(), f.add(t, good)
		m.MediaType, m.Platform = mediaType, &here
		return f.addIndex(t, m)
	}
	for what, top := range map[string]ocispec.Descriptor{
		"a text":                     raw("text of a manifest", ocispec.MediaTypeImageManifest),
		"a list":                     raw("[]", ocispec.MediaTypeImageManifest),
		"an index that is a text":    raw("text of an index", ocispec.MediaTypeImageIndex),
		"an index called a manifest": raw(`{"manifests":[{}]}`, ocispec.MediaTypeImageManifest),
		"a manifest called an index": asIndex,
		"schema 1":                   raw(`{"fsLayers":[{}]}`, ocispec.MediaTypeImageManifest),
		"a config that is a text":    f.add(t, ofText),
		"schema 1 in an index":       entry(images.MediaTypeDockerSchema1Manifest),
		"an artifact in an index":    entry("application/vnd.oci.artifact.manifest.v1+json"),
		"a config in an index":       entry(ocispec.MediaTypeImageConfig),
		"a layer in an index":        entry(ocispec.MediaTypeImageLayerGzip),
		"no type in an index":        entry(""),
		"a text in an index":         f.addIndex(t, raw("text of a manifest in an index", ocispec.MediaTypeImageManifest)),
	} {
		f.top = top
		wantInvalid(n, what)
	}
}
