// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestLostFilesOfANestedIndex loses the documents of an image one by one whose index
// is in an index.
func TestLostFilesOfANestedIndex(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	img := nodetest.Image(1)
	inner := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img})
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})
	ref := nodetest.Named("app:1")
	n.Push("app:1", outer)
	n.MustPull(ref)
	for what, document := range map[string]interface{ Digest() (v1.Hash, error) }{"outer index": outer, "inner index": inner, "manifest": img} {
		t.Run(what, func(t *testing.T) {
			n := n.In(t)
			d, err := document.Digest()
			n.Must(err)
			lose(n, digest.Digest(d.String()))
			n.Registry.Refuse()
			wantFetchedAgain(n, ref, "IfNotPresent", "is lost")
		})
	}
}
