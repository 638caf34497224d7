// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archiveOf is one of a file of that name.
func archiveOf(t *testing.T, name string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg}), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestOnlyLayers holds that documents cannot be read as layers, and layers can, whatever they begin with.
func TestOnlyLayers(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte("{}")); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for text, layer := range map[string]bool{
		archiveOf(t, "bin/sh"): true, archiveOf(t, "{}"): true, archiveOf(t, " "+strings.Repeat("x", 90)): true, zipped.String(): true,
		strings.Repeat(" ", int(docker.MaxManifestSize)+1): true, "text": true,
		`{}`: false, "\n\t{\"config\": {}}": false, `{"a": "` + strings.Repeat("x", 600) + "\"}": false,
		strings.Repeat(" ", int(docker.MaxManifestSize)): false,
	} {
		here := documentsHere{digest.FromString(text): []byte(text)}
		_, err := content.ReadBlob(t.Context(), OnlyLayers{here}, ocispec.Descriptor{Digest: digest.FromString(text)})
		if layer && err != nil || !layer && !errdefs.IsNotFound(err) {
			t.Errorf("%.20q is a layer: %t, and %v", text, layer, err)
		}
	}
}

// TestCheckImageOfLayersOfOtherSizes holds that a size which the layer has not is invalid, and that of no document
// it says whether that is here, or which size it has.
func TestCheckImageOfLayersOfOtherSizes(t *testing.T) {
	here := documentsHere{}
	layer, private := archiveOf(t, "bin/sh"), `{"config": "of others"}`
	here[digest.FromString(layer)], here[digest.FromString(private)] = []byte(layer), []byte(private)
	config := here.add(t, ocispec.MediaTypeImageConfig, ocispec.Image{})
	check := func(of string, size int64) error {
		return CheckImage(t.Context(), here, here.add(t, ocispec.MediaTypeImageManifest, ocispec.Manifest{
			MediaType: ocispec.MediaTypeImageManifest, Config: config,
			Layers: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString(of), Size: size}},
		}), nil)
	}
	for size, passes := range map[int64]bool{int64(len(layer)): true, 1: false, 1 << 40: false} {
		err := check(layer, size)
		if (err == nil) != passes || err != nil && (!errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "2560")) {
			t.Errorf("a layer, said to have %d bytes: %v", size, err)
		}
	}
	for _, size := range []int64{int64(len(private)), 1, 1 << 40} {
		if err := errors.Join(check(private, size), check("nowhere", size)); err != nil {
			t.Errorf("a document, or nothing, said to have %d bytes: %v", size, err)
		}
	}
}
