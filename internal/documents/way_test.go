// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/usage"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// documentsHere are what a node has, by digest. It says how large each is, as a content store does.
type documentsHere map[digest.Digest][]byte

func (d documentsHere) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if data, ok := d[desc.Digest]; ok {
		return readerOf(string(data)), nil
	}
	return nil, errdefs.ErrNotFound
}

func (d documentsHere) Info(_ context.Context, of digest.Digest) (content.Info, error) {
	if _, ok := d[of]; !ok {
		return content.Info{}, errdefs.ErrNotFound
	}
	return content.Info{Digest: of, Size: int64(len(d[of]))}, nil
}

// add adds a document, and returns what names it.
func (d documentsHere) add(t *testing.T, mediaType string, document any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	d[desc.Digest] = data
	return desc
}

// manifest adds one of so many layers, which are one and the same.
func (d documentsHere) manifest(t *testing.T, layers int) ocispec.Descriptor {
	layer := ocispec.Descriptor{MediaType: "application/x-none", Digest: digest.FromString("layer"), Size: 5}
	return d.add(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    d.add(t, ocispec.MediaTypeImageConfig, ocispec.Image{Platform: platforms.DefaultSpec()}),
		Layers:    slices.Repeat([]ocispec.Descriptor{layer}, layers),
	})
}

// index adds one of these.
func (d documentsHere) index(t *testing.T, manifests ...ocispec.Descriptor) ocispec.Descriptor {
	return d.add(t, ocispec.MediaTypeImageIndex, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests})
}

// nested adds indexes in each other, down to that.
func (d documentsHere) nested(t *testing.T, desc ocispec.Descriptor, depth int) ocispec.Descriptor {
	for range depth {
		desc = d.index(t, desc)
	}
	return desc
}

func forPlatform(desc ocispec.Descriptor, os, architecture, variant string) ocispec.Descriptor {
	desc.Platform = &ocispec.Platform{OS: os, Architecture: architecture, Variant: variant}
	return desc
}

// TestCheckImage holds that CRI reads each image that passes, and shows the size of what runs: an
// image that it cannot read does not pass, nor does one whose size depends on what else is here.
func TestCheckImage(t *testing.T) {
	here := documentsHere{}
	manifest, spec := here.manifest(t, 1), platforms.DefaultSpec()
	ours := forPlatform(manifest, spec.OS, spec.Architecture, spec.Variant)
	nowhere := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("nowhere"), Size: 500}
	attestation := forPlatform(nowhere, "unknown", "unknown", "")
	attestation.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	private := forPlatform(here.manifest(t, 2), "plan9", "mips", "")
	elsewhere := func(desc ocispec.Descriptor) ocispec.Descriptor { return forPlatform(desc, "plan9", "mips", "") }
	larger := elsewhere(manifest)
	larger.Size++
	large := func(of ocispec.Descriptor) ocispec.Descriptor {
		return here.add(t, ocispec.MediaTypeImageIndex, ocispec.Index{
			MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{of},
			Annotations: map[string]string{"of": of.Digest.String() + strings.Repeat("x", 3<<20)},
		})
	}
	for what, tc := range map[string]struct {
		target ocispec.Descriptor
		passes bool
	}{
		"a manifest":                          {manifest, true},
		"BuildKit's index":                    {here.index(t, ours, attestation), true},
		"attestations before the manifest":    {here.index(t, attestation, ours), true},
		"the only entry, without a platform":  {here.index(t, manifest), true},
		"many without a platform":             {here.index(t, manifest, nowhere, nowhere), true},
		"Windows and Linux":                   {here.index(t, forPlatform(nowhere, "windows", "amd64", ""), ours), true},
		"variants":                            {here.index(t, forPlatform(nowhere, "linux", "arm", "v5"), forPlatform(nowhere, "linux", "arm", "v6"), ours, forPlatform(nowhere, "linux", "riscv64", "")), true},
		"the same for another platform":       {here.index(t, manifest, elsewhere(manifest)), true},
		"as many references as CRI counts":    {here.index(t, here.manifest(t, maxReferences-3)), true},
		"as many nested indexes as may be":    {here.nested(t, manifest, maxIndexes), true},
		"an attestation beside none for here": {here.index(t, manifest, attestation), false},
		"… nested":                            {here.index(t, here.index(t, attestation, manifest)), false},
		"… beside an index for here":          {here.index(t, here.index(t, manifest), attestation), false},
		"another platform's that is here":     {here.index(t, manifest, private), false},
		"the same of another size":            {here.index(t, manifest, larger), false},
		"more references":                     {here.index(t, here.manifest(t, maxReferences-2)), false},
		"more nested indexes":                 {here.nested(t, manifest, maxIndexes+1), false},
		"large documents":                     {large(large(large(manifest))), false},
	} {
		err := CheckImage(t.Context(), here, tc.target, nil)
		if (err == nil) != tc.passes || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			continue
		}
		size, err := usage.CalculateImageUsage(t.Context(), images.Image{Target: tc.target}, here, usage.WithManifestLimit(platforms.Default(), 1), usage.WithManifestUsage())
		if err != nil || size < manifest.Size {
			t.Errorf("%s: CRI reads %d bytes, %v", what, size, err)
		}
	}
}

// An image of which a document is not here is not found, and not invalid.
func TestCheckImageThatIsNotHere(t *testing.T) {
	here := documentsHere{}
	nowhere := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("nowhere"), Size: 500}
	if err := CheckImage(t.Context(), here, here.index(t, nowhere), nil); !errdefs.IsNotFound(err) || errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// CheckImage has the config checked that CRI reads, whatever its manifest calls it.
func TestCheckImageByItsConfig(t *testing.T) {
	here, refused := documentsHere{}, errors.New("a test")
	for _, mediaType := range []string{ocispec.MediaTypeImageConfig, "application/octet-stream", ""} {
		config := here.add(t, mediaType, ocispec.Image{Author: "author of " + mediaType, Platform: platforms.DefaultSpec()})
		manifest := here.add(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config})
		for _, target := range []ocispec.Descriptor{manifest, here.index(t, manifest)} {
			err := CheckImage(t.Context(), here, target, func(data []byte) error {
				if !slices.Equal(data, here[config.Digest]) {
					t.Errorf("%s: got %s", mediaType, data)
				}
				return refused
			})
			if of, ok := errors.AsType[*Error](err); !ok || of.Document != config.Digest || !errors.Is(err, ErrInvalid) || !errors.Is(err, refused) {
				t.Errorf("%s: %v", mediaType, err)
			}
			if err := CheckImage(t.Context(), here, target, func([]byte) error { return nil }); err != nil {
				t.Errorf("%s: %v", mediaType, err)
			}
		}
		delete(here, config.Digest)
		if err := CheckImage(t.Context(), here, manifest, func([]byte) error { return nil }); !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", mediaType, err)
		}
	}
}

// TestCheckImageOfAnotherSize holds that what the image is said to have is its size: nobody else compares it
// where the document is here.
func TestCheckImageOfAnotherSize(t *testing.T) {
	here := documentsHere{}
	manifest := here.manifest(t, 1)
	if err := CheckImage(t.Context(), here, manifest, nil); err != nil {
		t.Fatal(err)
	}
	larger := manifest
	larger.Size++
	var m ocispec.Manifest
	if err := json.Unmarshal(here[manifest.Digest], &m); err != nil {
		t.Fatal(err)
	}
	m.Config.Size++
	for what, target := range map[string]ocispec.Descriptor{
		"a manifest": larger, "one in an index": here.index(t, larger), "a config": here.add(t, ocispec.MediaTypeImageManifest, m),
	} {
		if err := CheckImage(t.Context(), here, target, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
