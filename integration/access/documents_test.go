// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLargeDocuments has a tenant's registry serve documents of more bytes than
// anybody needs, which would be read into memory: as what they are, and as content that
// is on the node already, as a layer.
func TestLargeDocuments(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	base := resolvertest.Image(1, 1, 9<<20)
	n.Push("app:1", base)
	n.MustPull(nodetest.Named("app:1"))
	layers, err := base.Layers()
	n.Must(err)
	layer, err := layers[0].Digest()
	n.Must(err)

	versioned := specs.Versioned{SchemaVersion: 2}
	manifest := func(config ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{}}
	}
	described := func(mediaType string, d digest.Digest, size int64) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: size}
	}
	zeros := make([]byte, 9<<20)
	large, here := digest.FromBytes(zeros), digest.Digest(layer.String())
	const odd = "application/x-config"
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	// Here the mirror would be asked first for the manifest, so that the digest is asked for by
	// HEAD.
	n.WriteHosts("behind.test", n.Server(evil)+fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\"]\n", resolvertest.New(t).URL()))
	i := 0
	for what, top := range map[string]func(f *forgery) ocispec.Descriptor{
		"config": func(f *forgery) ocispec.Descriptor {
			return f.add(t, manifest(described(ocispec.MediaTypeImageConfig, large, 9<<20)))
		},
		"config of any type":  func(f *forgery) ocispec.Descriptor { return f.add(t, manifest(described(odd, large, 9<<20))) },
		"config that is here": func(f *forgery) ocispec.Descriptor { return f.add(t, manifest(described(odd, here, 100))) },
		"config among the layers": func(f *forgery) ocispec.Descriptor {
			m := manifest(f.add(t, ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers"}}))
			m.Config.MediaType = ocispec.MediaTypeImageConfig
			m.Layers = []ocispec.Descriptor{described(ocispec.MediaTypeImageConfig, large, 9<<20), described(ocispec.MediaTypeImageLayerGzip, here, 100)}
			return f.add(t, m)
		},
		"manifest": func(f *forgery) ocispec.Descriptor {
			return f.addIndex(t, described(ocispec.MediaTypeImageManifest, large, 9<<20))
		},
		"manifest that is here": func(f *forgery) ocispec.Descriptor {
			return f.addIndex(t, described(ocispec.MediaTypeImageManifest, here, 100))
		},
		"the target, that is here": func(*forgery) ocispec.Descriptor { return described(ocispec.MediaTypeImageManifest, here, 100) },
	} {
		i++
		t.Run(what, func(t *testing.T) {
			f := &forgery{served: map[digest.Digest][]byte{large: zeros}}
			f.top = top(f)
			defer evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })()
			name, words := "evil.test", []string{"more than", "bytes", "not allowed"}
			switch what { // it has to deliver that
			case "manifest that is here":
				words = []string{"not_found", here.String()}
			case "the target, that is here":
				name, words = "behind.test", []string{"not_found", here.String()}
			}
			n.In(t).MustFail(fmt.Sprintf("%s/app:%d", name, i), words)
		})
	}
}
