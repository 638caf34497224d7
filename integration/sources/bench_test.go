// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// BenchmarkListImages lists 1,000 images through CRI, with containerd as it is
// and with pullwarden. The difference between them is longer answers.
func BenchmarkListImages(b *testing.B) {
	n := nodetest.Start(b)
	n.Must(n.Fill(b.Context(), "registry.test", 1000, 1))
	for _, bm := range []struct {
		name string
		opt  nodetest.Option
	}{
		{"stock", nodetest.OnlySection()},
		{"pullwarden", nodetest.OnlySection("enabled = true")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			n := n.In(b)
			n.Restart(bm.opt)
			nodetest.Want(b, "images", len(n.List()), 1000)
			for b.Loop() {
				if _, err := n.Images.ListImages(b.Context(), &runtimeapi.ListImagesRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
