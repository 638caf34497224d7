// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestOneManifestManyTimes has an index name one large manifest often. It is read and listed once:
// each time takes a quarter of a second of the node's.
func TestOneManifestManyTimes(t *testing.T) {
	n := nodetest.New(t)
	took := func(name string, times int) time.Duration {
		img := nodetest.Image(1)
		f := forge(n, img)
		m := manifestOf(n, img)
		m.Versioned = specs.Versioned{SchemaVersion: 2}
		m.MediaType = ocispec.MediaTypeImageManifest
		m.Annotations = map[string]string{"a": strings.Repeat("x", 3900<<10), "of": name}
		here := platforms.DefaultSpec()
		manifest := f.add(t, m)
		manifest.Platform = &here
		f.top = f.add(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: slices.Repeat([]ocispec.Descriptor{manifest}, times),
		})
		n.Serve(name, f.registry(t))
		start := time.Now()
		n.MustPull(name + "/x:1")
		return time.Since(start)
	}
	once := took("once.test", 1)
	often := took("often.test", 100)
	if often > 3*once+2*time.Second {
		t.Errorf("100 names of a manifest take %v, one takes %v", often, once)
	}
}
