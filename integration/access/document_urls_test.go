// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLsOfDocuments has a registry serve an index and a manifest that say that the manifest
// and the config are elsewhere, where they are. The node asks the registry for both.
func TestURLsOfDocuments(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	img := nodetest.Image(1)
	f := forge(n, img)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the node asks elsewhere for %s", r.URL)
		_, _ = w.Write(f.served[digest.Digest(path.Base(r.URL.Path))])
	}))
	t.Cleanup(elsewhere.Close)
	manifest := manifestOf(n, img)
	manifest.Config.URLs = []string{elsewhere.URL + "/" + manifest.Config.Digest.String()}
	inner := f.add(t, manifest)
	inner.URLs = []string{elsewhere.URL + "/" + inner.Digest.String()}
	f.top = f.add(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{inner},
	})
	registry := f.registry(t)
	n.Serve("urls.test", registry)
	n.MustPull("urls.test/app:1")
	n.WantRunnable("urls.test/app:1")
	nodetest.Want(t, "content-sources", n.Labels("urls.test/app:1")["content-sources"], "")
}
