// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// nest puts a document into an index that names it twice, and that index into
// another one, as often as depth says. Containerd follows one name of each: the
// other is for another platform.
func (f *forgery) nest(t *testing.T, document ocispec.Descriptor, depth int) ocispec.Descriptor {
	t.Helper()
	for range depth {
		other := document
		other.Platform = &ocispec.Platform{OS: "windows", Architecture: "amd64"}
		document = f.add(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{document, other},
		})
	}
	return document
}

// TestNestedIndexes has a tenant's registry serve indexes that name the next one twice, forty times
// over. There are few documents, and very many ways to each. More than eight in each other are not
// pulled.
func TestNestedIndexes(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	img := nodetest.Image(1)
	f := forge(n, img)
	manifest, err := img.RawManifest()
	n.Must(err)
	mediaType, err := img.MediaType()
	n.Must(err)
	desc := ocispec.Descriptor{MediaType: string(mediaType), Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}
	f.served[desc.Digest] = manifest
	f.top = f.nest(t, desc, 8)
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
	n.MustPull("evil.test/x:1")
	f.top = f.nest(t, desc, 40)
	n.MustFail("evil.test/x:2", []string{"invalid", evil.Host(), "8 others"}) // by each way it would not end within its limit
}
