// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestPinnedByAnotherManifest pins a tag that stands for an index, and shows another one that stands for the manifest
// in it: CRI has one image for both, by their config, which the kubelet keeps with all of its names.
func TestPinnedByAnotherManifest(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("a.toml", "[[rule]]\nimages = ['registry.test/app:1']\npin = true\n")
	img := nodetest.Image(1)
	n.Push("app:1", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}},
	}))
	n.Push("app:1-alone", img)
	n.Push("other:1", nodetest.Image(2))
	for _, name := range []string{"app:1", "app:1-alone", "other:1"} {
		n.MustPull(nodetest.Named(name))
	}
	for _, got := range statusOf(n).Images {
		if want := got.Reference != nodetest.Named("other:1"); got.Pinned != want {
			t.Errorf("%s: pinned is %t", got.Reference, got.Pinned)
		}
	}
}
