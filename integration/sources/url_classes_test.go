// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The tag moves to an image with a layer that is said to be on a host that is gone.
func TestFailingURLOfAChange(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"refused": "UsedCached unreachable"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
			failing := httptest.NewServer(http.NotFoundHandler())
			failing.Close()
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			n.MustPull(ref)
			layers, err := nodetest.Image(2).Layers()
			n.Must(err)
			img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: layers[0], MediaType: types.OCILayer, URLs: []string{failing.URL + "/layer"}})
			n.Must(err)
			n.Push("app:1", img)
			mark := n.Mark()
			_, err = n.Pull(ref)
			d := n.Told(mark, ref)
			nodetest.Want(t, "outcome", d.Outcome+" "+d.Reason, want)
			t.Logf("%v", err)
		})
	}
}
