// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time on everything in the images.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// Image makes an OCI image for Linux on this machine's architecture, with that
// many layers of one file of that many incompressible bytes each. The same
// arguments give the same digest, another seed other layers.
func Image(seed int64, layers, bytes int) v1.Image {
	return image(seed, layers, bytes, "linux/"+runtime.GOARCH)
}

// Index makes an OCI index with an Image for each platform ("os/arch"); with
// none, for linux/amd64 and linux/arm64.
func Index(seed int64, layers, bytes int, platforms ...string) v1.ImageIndex {
	if len(platforms) == 0 {
		platforms = []string{"linux/amd64", "linux/arm64"}
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		os, arch, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image(seed, layers, bytes, platform),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}},
		})
	}
	return index
}

// image panics where building from memory fails, which nothing outside can cause.
func image(seed int64, layers, bytes int, platform string) v1.Image {
	os, arch, _ := strings.Cut(platform, "/")
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img = must(mutate.ConfigFile(img, &v1.ConfigFile{
		OS: os, Architecture: arch, Created: v1.Time{Time: epoch},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Cmd: []string{"/layer-0"}, Labels: map[string]string{"seed": fmt.Sprint(seed)}},
	}))
	for i := range layers {
		content := layer(seed, i, bytes)
		l := must(tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(content)), nil
		}, tarball.WithMediaType(types.OCILayer)))
		img = must(mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: epoch}}}))
	}
	return img
}

// layer returns a tar with one file.
func layer(seed int64, i, size int) string {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], uint64(seed))
	binary.LittleEndian.PutUint64(key[8:], uint64(i))
	content := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(content)

	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(0, w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: fmt.Sprintf("layer-%d", i), Mode: 0o755, Size: int64(size), ModTime: epoch,
	}))
	must(w.Write(content))
	must(0, w.Close())
	return b.String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
