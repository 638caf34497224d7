// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestContainersBesideATagThatCRICannotRead holds that containers of an image have its files, where a
// tag of another tenant's, which stood for that image, is moved to an index that CRI cannot read: it
// goes on to take the tag for the image, however many pods pull it at once. Where rules are enforced, such
// an index is no image.
func TestContainersBesideATagThatCRICannotRead(t *testing.T) {
	t.Parallel()
	for what, rule := range map[string]string{
		"enforced": "", "observed": "[[rule]]\nimages = [\"a.evil.test/**\"]\nmode = \"Observe\"\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Containers(t))
			good, evil := resolvertest.New(t), resolvertest.New(t)
			n.Serve("good.test", good)
			n.Serve("a.evil.test", evil)
			n.WriteRules("10.toml", rule+fmt.Sprintf("[[rule]]\nimages = [\"good.test/**\"]\nallowed_sources = [%q]\n", good.Host()))
			img, err := mutate.AppendLayers(nodetest.Busybox(t, 1, "sleep", "86400"), nodetest.Layer(t, 2))
			n.Must(err)
			bad, err := mutate.AppendLayers(img, nodetest.Layer(t, 66))
			n.Must(err)
			n.PushTo(good, "app:1", img)
			n.PushTo(evil, "app:1", img)
			pod := n.RunPodOf("", resolvertest.New(t))
			id := n.MustPull("good.test/app:1", pod.Pulls())
			n.MustPull("a.evil.test/app:1")
			n.Push("bad:1", bad) // forge takes its layers from here
			f := forge(n, bad)
			nowhere := ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}
			f.top = f.addIndex(t, f.add(t, manifestOf(n, bad)), ofPlatform(nowhere, "unknown", "unknown"))
			n.Serve("a.evil.test", f.registry(t))
			var pods sync.WaitGroup
			for range 6 {
				pods.Go(func() {
					for range 5 { // where observed, one may get the image that another's failure has brought back
						_, _ = n.Pull("a.evil.test/app:1", node.Hint("policy", "IfDigestChanged"))
					}
				})
			}
			pods.Wait()
			n.MustFail("a.evil.test/app:1", nil, node.Hint("policy", "IfDigestChanged"))
			for i := range 2 {
				container, err := pod.Create(fmt.Sprint("app", i), id, "good.test/app:1", nil)
				n.Must(err)
				nodetest.Want(t, "the layers of a container", n.StandsOn(container), nodetest.ChainOf(t, img))
			}
		})
	}
}
