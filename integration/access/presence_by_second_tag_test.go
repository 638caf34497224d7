// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestPresenceBySecondTag holds that a tenant does not find out whether the config of a private image is on the node, by an
// index that calls it a manifest of another platform, and that is pulled by a second tag, where nothing is delivered any more.
func TestPresenceBySecondTag(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		t.Run(map[bool]string{true: "there", false: "absent"}[there], func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t)
			private := nodetest.Image(7)
			if there {
				n.Push("private:1", private)
				n.MustPull(nodetest.Named("private:1"))
			}
			raw, err := private.RawConfigFile()
			n.Must(err)
			img := nodetest.Image(1)
			f := forge(n, img)
			m, err := img.RawManifest()
			n.Must(err)
			here := platforms.DefaultSpec()
			own := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(m), Size: int64(len(m)), Platform: &here}
			f.served[own.Digest] = m
			f.top = f.add(t, ocispec.Index{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
				Manifests: []ocispec.Descriptor{own, {MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(raw), Size: int64(len(raw)),
					Platform: &ocispec.Platform{OS: "plan9", Architecture: "mips"}}},
			})
			n.Serve("evil.test", f.registry(t))
			n.MustPull("evil.test/x:1")
			n.MustPull("evil.test/x:2", node.Hint("policy", "Always"))
		})
	}
}
