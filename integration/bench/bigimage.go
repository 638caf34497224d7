// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// compression is one of a layer.
type compression struct {
	name      string
	mediaType types.MediaType
	writer    func(io.Writer) (io.WriteCloser, error)
}

var (
	gzipped = compression{"gzip", types.OCILayer, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestSpeed) }}
	zstded  = compression{"zstd", types.OCILayerZStd, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }}
)

// bigImage makes an image with that many layers of 64 files of 1 MiB, whose content can be
// compressed to about a half.
func (c compression) bigImage(layers int) (v1.Image, error) {
	made := make([]v1.Layer, layers)
	var workers errgroup.Group
	workers.SetLimit(runtime.NumCPU())
	for i := range layers {
		workers.Go(func() (err error) {
			made[i], err = c.bigLayer(uint64(i))
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, fmt.Errorf("make layers of %s: %w", c.name, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, made...)
}

// bigLayer is a layer of its own for each seed, in memory as it is sent.
func (c compression) bigLayer(seed uint64) (v1.Layer, error) {
	const files, size, block = 64, 1 << 20, 64
	var sent bytes.Buffer
	w, err := c.writer(&sent)
	if err != nil {
		return nil, err
	}
	archive, content := tar.NewWriter(w), make([]byte, size)
	for i := range files {
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], seed)
		binary.LittleEndian.PutUint64(key[8:], uint64(i))
		random := rand.NewChaCha8(key)
		for at := 0; at < size; at += block { // the other half stays as it is
			_, _ = random.Read(content[at : at+block/2])
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("layer-%d/file-%d", seed, i), Mode: 0o644, Size: size}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sent.Bytes())), nil }, tarball.WithMediaType(c.mediaType))
}
