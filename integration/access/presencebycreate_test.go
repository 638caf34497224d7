// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// extracting is the key of an active snapshot, in an error: no two are equal.
var extracting = regexp.MustCompile(`extract-[0-9]+-[A-Za-z0-9_-]+`)

// TestPresenceByAContainerOfAnotherRuntime has the container of a pod that does not pull unpack such an image:
// the error is that of a layer which is not there.
func TestPresenceByAContainerOfAnotherRuntime(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
	img := nodetest.Image(7)
	n.Push("private:1", img)
	raw, err := img.RawManifest()
	n.Must(err)
	f := withLayerUnpacked(t, n, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(raw), Size: int64(len(raw))})
	n.Serve("evil.test", f.registry(t))
	id := n.MustPull("evil.test/x:1")
	pod := n.RunPodOf("native", resolvertest.New(t))
	create := func() string {
		_, err := pod.Create("app", id, "evil.test/x:1", nil)
		if err == nil {
			t.Fatal("there is a container")
		}
		return extracting.ReplaceAllString(err.Error(), "extract")
	}
	pull := func() string {
		_, err := n.Pull("evil.test/x:1", pod.Pulls(), node.Hint("policy", "IfNotPresent"))
		return took.ReplaceAllString(extracting.ReplaceAllString(fmt.Sprint(err), "extract"), "after a while")
	}
	created, pulled := create(), pull()
	n.MustPull(nodetest.Named("private:1"))
	nodetest.Want(t, "error of a container once the private image is there", create(), created)
	nodetest.Want(t, "error of a pull once the private image is there", pull(), pulled)
}
