// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// packed is a layer of one file, in a form of its own of the same tar.
type packed struct {
	v1.Layer
	tar []byte
}

func (l packed) DiffID() (v1.Hash, error) { return v1.NewHash(digest.FromBytes(l.tar).String()) }
func (l packed) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.tar)), nil
}

// pack returns the layer with a file of that name, by that level of gzip.
func pack(t *testing.T, name string, level int) v1.Layer {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var tarred, zipped bytes.Buffer
	w := tar.NewWriter(&tarred)
	data := bytes.Repeat([]byte(name), 500)
	must(w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}))
	_, err := w.Write(data)
	must(err)
	must(w.Close())
	z, err := gzip.NewWriterLevel(&zipped, level)
	must(err)
	_, err = z.Write(tarred.Bytes())
	must(err)
	must(z.Close())
	return packed{static.NewLayer(zipped.Bytes(), types.DockerLayer), tarred.Bytes()}
}

// pushLayers pushes an image of these layers.
func pushLayers(n *nodetest.Node, r *resolvertest.Registry, name string, layers ...v1.Layer) {
	n.T.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	n.Must(err)
	n.PushTo(r, name, img)
}

// TestBaseOfAnotherTenantInASnapshotter holds that an image from allowed hosts is compared for a
// snapshotter in which another tenant's image has left its base, packed in another way, from elsewhere:
// no pod fails. It is compared once, though what the pull before it found out may not be written yet.
func TestBaseOfAnotherTenantInASnapshotter(t *testing.T) {
	t.Parallel()
	for discard, want := range map[bool]string{false: "Pulled (source)", true: "Pulled (incomplete)"} {
		t.Run(fmt.Sprintf("discard_unpacked_layers = %t", discard), func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.NativeRuntime(), nodetest.CRIImages(fmt.Sprintf("discard_unpacked_layers = %t", discard)))
			good, bad := resolvertest.New(t), resolvertest.New(t)
			n.Serve("good.test", good)
			n.Serve("bad.test", bad)
			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"good.test/**\"]\npolicy = \"IfDigestChanged\"\nallowed_sources = [%q]\n", good.Host()))
			base := pack(t, "base", gzip.BestCompression)
			pushLayers(n, bad, "base:1", pack(t, "base", gzip.BestSpeed))
			pushLayers(n, good, "app:1", base, pack(t, "app", gzip.BestCompression))
			const ref = "good.test/app:1"
			n.MustPull("bad.test/base:1", node.RuntimeHandler("native"))
			n.MustPull(ref)
			mark := n.Mark()
			good.Forget()
			n.MustPull(ref, node.RuntimeHandler("native"))
			got := n.Decision(mark, ref)
			nodetest.Want(t, "the outcome", got.Outcome+" ("+got.Reason+")", want)
			digest, err := base.Digest()
			n.Must(err)
			ofBase := func(r resolvertest.Request) bool {
				return r.Method == http.MethodGet && strings.HasSuffix(r.Path, digest.String())
			}
			nodetest.Want(t, "times that the base is compared", good.Count(ofBase), 1)
			nodetest.Eventually(t, "the comparison is recorded", func() bool { return n.Labels(ref)["compared"] == "true" })
			good.Refuse()
			n.MustPull(ref, node.RuntimeHandler("native"))
		})
	}
}

// TestBaseOfAnImageThatIsRemoved holds that an image from allowed registries alone stays one, which was pulled
// without its base: that was unpacked for another image, packed in another way, which is removed then, as is
// a third one that packs it in a third way, be it from another one of these.
func TestBaseOfAnImageThatIsRemoved(t *testing.T) {
	t.Parallel()
	for _, third := range []string{"good.test/third:1", "also.test/third:1"} {
		n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
		good, also := resolvertest.New(t), resolvertest.New(t)
		n.Serve("good.test", good)
		n.Serve("also.test", also)
		n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"*.test/**\"]\nallowed_sources = [%q, %q]\n", good.Host(), also.Host()))
		for _, r := range []*resolvertest.Registry{good, also} {
			pushLayers(n, r, "third:1", pack(t, "third", gzip.BestSpeed), pack(t, "base", gzip.HuffmanOnly))
		}
		pushLayers(n, good, "other:1", pack(t, "base", gzip.BestSpeed), pack(t, "other", gzip.BestCompression))
		pushLayers(n, good, "app:1", pack(t, "base", gzip.BestCompression), pack(t, "app", gzip.BestCompression))
		for _, ref := range []string{third, "good.test/other:1", "good.test/app:1"} {
			n.MustPull(ref)
		}
		n.Remove("good.test/other:1")
		n.Remove(third)
		n.CollectGarbage()
		good.Refuse()
		n.MustPull("good.test/app:1")
		n.MustPull("good.test/app:1", node.Hint("policy", "Never"))
	}
}

// TestBaseThatAnotherTenantPacksAgain holds that an image from the allowed registry stays one, whose base another
// tenant has unpacked in another chain before, and has by a third packing in the same one.
func TestBaseThatAnotherTenantPacksAgain(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	good, bad := resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", good)
	n.Serve("bad.test", bad)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"good.test/**\"]\nallowed_sources = [%q]\n", good.Host()))
	pushLayers(n, bad, "first:1", pack(t, "x", gzip.BestSpeed), pack(t, "base", gzip.BestSpeed))
	pushLayers(n, good, "app:1", pack(t, "base", gzip.BestCompression), pack(t, "app", gzip.BestCompression))
	pushLayers(n, bad, "third:1", pack(t, "base", gzip.HuffmanOnly))
	for _, ref := range []string{"bad.test/first:1", "good.test/app:1", "bad.test/third:1"} {
		n.MustPull(ref)
	}
	good.Refuse()
	n.MustPull("good.test/app:1")
	n.MustPull("good.test/app:1", node.Hint("policy", "Never"))
}
