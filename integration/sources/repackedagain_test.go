// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// forgetLayers has no snapshot say which layers unpack to it, as those of an earlier version do not.
func forgetLayers(n *nodetest.Node) {
	n.T.Helper()
	const prefix = "pullwarden.io/unpacked-layer."
	ctx := namespaces.WithNamespace(n.T.Context(), "k8s.io")
	sn := n.Client.SnapshotService("overlayfs")
	said := map[string]string{}
	n.Must(sn.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		for label := range info.Labels {
			if strings.HasPrefix(label, prefix) {
				said[info.Name] = label
			}
		}
		return nil
	}))
	if len(said) == 0 {
		n.T.Error("no snapshot says it")
	}
	for name, label := range said {
		_, err := sn.Update(ctx, snapshots.Info{Name: name, Labels: map[string]string{}}, "labels."+label)
		n.Must(err)
	}
}

// TestImagesOnABaseThatWasCompared holds that images of an allowed registry, on a base of which nobody knows that it is theirs, have it
// compared once, and not each: it was unpacked for another image, in another packing, or by an earlier version.
func TestImagesOnABaseThatWasCompared(t *testing.T) {
	t.Parallel()
	for _, discard := range []bool{false, true} {
		for _, packing := range []string{"another", "unknown"} {
			if packing == "unknown" && !discard {
				continue // the layer is there, and tells
			}
			t.Run(fmt.Sprintf("discard_unpacked_layers = %t, %s packing", discard, packing), func(t *testing.T) {
				t.Parallel()
				n := nodetest.Start(t, nodetest.CRIImages(fmt.Sprintf("discard_unpacked_layers = %t", discard)))
				good := resolvertest.New(t)
				n.Serve("good.test", good)
				n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\nallowed_sources = [%q]\n", good.Host()))
				base := pack(t, "base", gzip.BestCompression)
				d, err := base.Digest()
				n.Must(err)
				first := base
				if packing == "another" {
					first = pack(t, "base", gzip.BestSpeed)
				}
				pushLayers(n, good, "other:1", first, pack(t, "other", gzip.BestCompression))
				n.MustPull("good.test/other:1")
				n.CollectGarbage()
				if packing == "unknown" {
					forgetLayers(n)
					n.MustPull("good.test/other:1") // it is compared as it is
				}
				for v := range 3 {
					ref := fmt.Sprintf("app:%d", v)
					pushLayers(n, good, ref, base, pack(t, fmt.Sprint("app", v), gzip.BestCompression))
					good.Forget()
					n.MustPull("good.test/" + ref)
					n.CollectGarbage()
					got := good.Count(func(r resolvertest.Request) bool {
						return r.Method == http.MethodGet && strings.HasSuffix(r.Path, d.String()) && r.Status == http.StatusOK // and not a part, to show that it is there
					})
					want := 0
					if !discard { // it is fetched as any layer that is not there
						want = 1
					}
					if v == 0 && packing == "another" {
						want++ // and compared
					}
					nodetest.Want(t, "times that the base is fetched for "+ref, got, want)
				}
			})
		}
	}
}
