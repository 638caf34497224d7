// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// packNamed is pack, with a comment in the header of gzip: the same layer in as many packings as anybody likes.
func packNamed(t *testing.T, name, comment string) v1.Layer {
	t.Helper()
	var tarred, zipped bytes.Buffer
	w := tar.NewWriter(&tarred)
	data := bytes.Repeat([]byte(name), 500)
	_ = w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644})
	_, _ = w.Write(data)
	_ = w.Close()
	z := gzip.NewWriter(&zipped)
	z.Comment = comment
	_, _ = z.Write(tarred.Bytes())
	_ = z.Close()
	return packed{static.NewLayer(zipped.Bytes(), types.DockerLayer), tarred.Bytes()}
}

// TestBaseInManyPackings holds that an image of the allowed registry stays usable while that is down, and is not taken anew while it is
// up, when another tenant has had its base compared in as many other packings as they like: be it that its layers were discarded, or
// that it was unpacked from another packing.
func TestBaseInManyPackings(t *testing.T) {
	t.Parallel()
	const repacks = 12
	for _, kind := range []string{"discard", "another packing"} {
		for _, down := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s down=%t", kind, down), func(t *testing.T) {
				t.Parallel()
				n := nodetest.Start(t, nodetest.CRIImages(fmt.Sprintf("discard_unpacked_layers = %t", kind == "discard")))
				good := resolvertest.New(t)
				n.Serve("good.test", good)
				n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\nallowed_sources = [%q]\n", good.Host()))
				base := packNamed(t, "base", "honest")
				if kind != "discard" { // the first on the base has another packing, the second is compared, the third is not
					pushLayers(n, good, "other:1", packNamed(t, "base", "other"), packNamed(t, "other", ""))
					n.MustPull("good.test/other:1")
					pushLayers(n, good, "before:1", base, packNamed(t, "before", ""))
					n.MustPull("good.test/before:1")
				}
				pushLayers(n, good, "app:1", base, packNamed(t, "app", ""))
				n.MustPull("good.test/app:1")
				n.CollectGarbage()
				for i := range repacks {
					ref := fmt.Sprintf("eve:%d", i)
					pushLayers(n, good, ref, packNamed(t, "base", ref), packNamed(t, ref, ""))
					n.MustPull("good.test/" + ref)
				}
				good.Forget()
				if down {
					good.Refuse()
					for _, p := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
						if _, err := n.Pull("good.test/app:1", node.Hint("policy", p)); err != nil {
							t.Errorf("%s, registry down: %v", p, err)
						}
					}
					return
				}
				if _, err := n.Pull("good.test/app:1", node.Hint("policy", "Never")); err != nil {
					t.Errorf("Never, registry up: %v", err)
				}
				n.MustPull("good.test/app:1")
				if got := good.Count(func(r resolvertest.Request) bool {
					return r.Method == http.MethodGet && strings.Contains(r.Path, "/blobs/")
				}); got > 0 {
					t.Errorf("blobs of an unchanged image were taken %d times", got)
				}
			})
		}
	}
}

// TestBaseInManyPackingsBefore holds that only the first image on a base is compared that another tenant has had unpacked, and compared,
// in as many other packings as they like before.
func TestBaseInManyPackingsBefore(t *testing.T) {
	t.Parallel()
	for _, discard := range []bool{false, true} {
		t.Run(fmt.Sprintf("discard_unpacked_layers = %t", discard), func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.CRIImages(fmt.Sprintf("discard_unpacked_layers = %t", discard)))
			good := resolvertest.New(t)
			n.Serve("good.test", good)
			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\nallowed_sources = [%q]\n", good.Host()))
			for i := range 12 {
				ref := fmt.Sprintf("eve:%d", i)
				pushLayers(n, good, ref, packNamed(t, "base", ref), packNamed(t, ref, ""))
				n.MustPull("good.test/" + ref)
			}
			n.CollectGarbage()
			base := packNamed(t, "base", "honest")
			d, err := base.Digest()
			n.Must(err)
			for v := range 3 {
				ref := fmt.Sprintf("app:%d", v)
				pushLayers(n, good, ref, base, packNamed(t, ref, ""))
				good.Forget()
				n.MustPull("good.test/" + ref)
				n.CollectGarbage()
				got := good.Count(func(r resolvertest.Request) bool {
					return r.Method == http.MethodGet && strings.HasSuffix(r.Path, d.String()) && r.Status == http.StatusOK // and not a part, to show that it is there
				})
				want := map[bool]int{false: 1, true: 0}[discard] // as any layer that is not there
				if v == 0 {
					want++
				}
				nodetest.Want(t, "times that the base is fetched for "+ref, got, want)
			}
		})
	}
}
