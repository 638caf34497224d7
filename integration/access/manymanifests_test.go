// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestManyManifestsOfOnePlatform has a registry serve an index with several images for the node's
// platform. One of them runs, so one is fetched: thousands at a time, with thousands of layers
// each, would fill the memory of containerd.
func TestManyManifestsOfOnePlatform(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	index := v1.ImageIndex(empty.Index)
	platform := &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	for seed := range 4 {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: nodetest.Image(int64(seed)), Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	n.Push("app:1", index)
	n.Registry.Forget()
	n.MustPull(nodetest.Named("app:1"))
	manifests := map[string]bool{}
	for _, r := range n.Registry.Requests() {
		if _, d, found := strings.Cut(r.Path, "/manifests/sha256:"); found && r.Method == http.MethodGet && r.Status == http.StatusOK {
			manifests[d] = true
		}
	}
	if len(manifests) != 1 {
		t.Errorf("%d manifests were fetched by their digests, want that which runs: %v", len(manifests), manifests)
	}
}
