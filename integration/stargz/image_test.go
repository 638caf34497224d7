// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stargz

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	layers    = 2
	layerSize = 4 << 20 // of the one file in a layer, which does not compress
)

// plainImage makes an image without eStargz layers. Another seed gives another image.
func plainImage(seed int64) v1.Image { return resolvertest.Image(seed, layers, layerSize) }

// lazyImage makes plainImage with eStargz layers.
func lazyImage(t *testing.T, seed int64) v1.Image {
	t.Helper()
	plain := plainImage(seed)
	config, err := plain.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.RootFS.DiffIDs, config.History = nil, nil
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	all, err := plain.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range all {
		if img, err = mutate.Append(img, converted(t, layer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// converted makes an eStargz layer of a layer.
func converted(t *testing.T, layer v1.Layer) mutate.Addendum {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "tar"), filepath.Join(dir, "layer")
	archive, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(archive)
	if err := errors.Join(err, archive.Close(), os.WriteFile(from, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	toc, err := exec.Command(tool(t, "convert"), from, to).Output()
	if err != nil {
		t.Fatal(err)
	}
	made, err := tarball.LayerFromFile(to, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Addendum{Layer: made, Annotations: map[string]string{"containerd.io/snapshot/stargz/toc.digest": strings.TrimSpace(string(toc))}}
}

// countBytes counts what a registry sends of blobs from now on.
func countBytes(r *resolvertest.Registry) *atomic.Int64 {
	var sent atomic.Int64
	r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w = &countingWriter{w, &sent}
		}
		next.ServeHTTP(w, r)
	})
	return &sent
}

type countingWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent.Add(int64(n))
	return n, err
}
