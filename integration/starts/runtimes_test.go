// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestStartOfAnotherRuntime has a pod pull an image that is fresh and can run, but not by the pod's own runtime: the
// kubelet names none, neither in its question nor in the pull.
func TestStartOfAnotherRuntime(t *testing.T) {
	t.Parallel()
	n := withPods(t, everywhere+"max_age = '1h'\n", nodetest.NativeRuntime())
	img := nodetest.Image(1)
	n.Push("app:1", img)
	ref := nodetest.Named("app:1")
	plain, native := newPod(n, "team-a", "plain"), newPod(n, "team-a", "native")
	native.handler = "native"
	plain.run()
	native.run()
	plain.mustStart(ref, "Pulled")
	layers, err := img.Layers()
	n.Must(err)
	for _, layer := range layers { // unpacked for one of the two alone
		d, err := layer.Digest()
		n.Must(err)
		n.Must(n.Client.ContentStore().Delete(t.Context(), digest.Digest(d.String())))
	}
	plain.mustStart(ref, "")
	native.mustStart(ref, "Pulled")
	native.mustStart(ref, "")
	plain.mustStart(ref, "")
}
