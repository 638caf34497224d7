// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestDocumentsWithoutDigests has a tenant's registry serve documents that name things by
// what is no digest, or by media types of any length. The error names the field.
func TestDocumentsWithoutDigests(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	versioned := specs.Versioned{SchemaVersion: 2}
	content := []byte("content")
	good := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(content), Size: int64(len(content))}
	config := func(f *forgery, diffIDs ...digest.Digest) ocispec.Descriptor {
		desc := f.add(t, ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffIDs}})
		desc.MediaType = ocispec.MediaTypeImageConfig
		return desc
	}
	manifest := func(f *forgery, config ocispec.Descriptor, layers ...ocispec.Descriptor) ocispec.Descriptor {
		return f.add(t, ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers})
	}
	named := func(d digest.Digest) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: good.MediaType, Digest: d, Size: good.Size}
	}
	typed := good
	typed.MediaType = "application/" + strings.Repeat("x", 1000)
	i := 0
	for field, top := range map[string]func(f *forgery) ocispec.Descriptor{
		"layers[1].digest":    func(f *forgery) ocispec.Descriptor { return manifest(f, config(f), good, named("sha256:../../x")) },
		"layers[0].mediaType": func(f *forgery) ocispec.Descriptor { return manifest(f, config(f), typed) },
		"config.digest":       func(f *forgery) ocispec.Descriptor { return manifest(f, named("none")) },
		"config.mediaType": func(f *forgery) ocispec.Descriptor { // containerd does not read the null
			config, err := json.Marshal(typed)
			n.Must(err)
			return f.add(t, json.RawMessage(`{"mediaType":"`+ocispec.MediaTypeImageManifest+`","config":`+string(config)+`,"config":null,"layers":[]}`))
		},
		"rootfs.diff_ids[0]": func(f *forgery) ocispec.Descriptor { return manifest(f, config(f, "a-snapshot"), good) },
		"manifests[0].digest": func(f *forgery) ocispec.Descriptor {
			m := named("none")
			m.MediaType = ocispec.MediaTypeImageManifest
			return f.add(t, ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{m}})
		},
	} {
		i++
		t.Run(field, func(t *testing.T) {
			f := &forgery{served: map[digest.Digest][]byte{good.Digest: content}}
			f.top = top(f)
			defer evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })()
			err := n.In(t).MustFail(fmt.Sprintf("evil.test/app:%d", i), []string{"invalid", evil.Host(), field + " "})
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestLongErrors has a layer name a file by more than a file system takes, which the error
// of who unpacks it repeats.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	n.Must(w.WriteHeader(&tar.Header{Name: strings.Repeat("x", 500_000), Mode: 0o600, Format: tar.FormatPAX}))
	n.Must(w.Close())
	layer := static.NewLayer(data.Bytes(), types.OCIUncompressedLayer)
	config, err := nodetest.Image(1).ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	diffID, err := layer.DiffID()
	n.Must(err)
	config.RootFS.DiffIDs = []v1.Hash{diffID}
	img, err := mutate.AppendLayers(empty.Image, layer)
	n.Must(err)
	img, err = mutate.ConfigFile(img, config)
	n.Must(err)
	n.Push("app:1", img)
	mark := n.Mark()
	err = n.MustFail(nodetest.Named("app:1"), []string{"failed to extract layer", "open…"})
	if len(err.Error()) > 3000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	for _, line := range n.LogLines(mark, "pullwarden: ") {
		if len(line) > 10_000 {
			t.Errorf("a line of %d bytes in the log", len(line))
		}
	}
}
