// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"os"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// lose removes files of content, as a crash or a disk does, so that containerd's
// database still has what its store has lost.
func lose(n *nodetest.Node, contents ...digest.Digest) {
	n.T.Helper()
	for _, d := range contents {
		n.Must(os.Remove(fileOf(n, d)))
	}
}

func fileOf(n *nodetest.Node, d digest.Digest) string {
	return n.Path("root", "io.containerd.content.v1.content", "blobs", "sha256", d.Encoded())
}

// have reports whether the store has the file of some content.
func have(n *nodetest.Node, d digest.Digest) bool {
	_, err := os.Stat(fileOf(n, d))
	return err == nil
}

// TestLostFiles loses files of an image that is there. Under each policy that asks
// a registry the next pull brings them back. Without a registry it fails, and the
// error is as without an image.
func TestLostFiles(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	img := nodetest.Image(1)
	manifest := n.Push("app:1", img)
	config, err := img.ConfigName()
	n.Must(err)
	n.MustPull(nodetest.Named("app:1"))
	for what, files := range map[string][]digest.Digest{
		"manifest": {manifest},
		"config":   {digest.Digest(config.String())},
		"both":     {manifest, digest.Digest(config.String())},
	} {
		for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
			t.Run(what+"/"+policy, func(t *testing.T) {
				n := n.In(t)
				lose(n, files...)
				n.Registry.Refuse()
				wantFetchedAgain(n, nodetest.Named("app:1"), policy, "is lost")
			})
		}
	}
}

// wantFetchedAgain holds that a pull fails while the registry is down, and works
// then, and tells how the file was damaged. The registry is down.
func wantFetchedAgain(n *nodetest.Node, ref, policy, damage string) {
	t := n.T
	t.Helper()
	n.MustFail(ref, []string{n.Registry.Host(), "unreachable"}, node.Hint("policy", policy))
	n.MustFail(ref, []string{"there is no image that these credentials may have", "Never"}, node.Hint("policy", "Never"))
	n.Restore()
	mark := n.Mark()
	n.MustPull(ref, node.Hint("policy", policy))
	got := n.Decision(mark, ref)
	nodetest.Want(t, "outcome", got.Outcome+" "+got.Reason, "Pulled incomplete")
	nodetest.Want(t, "lines of the log", len(n.LogLines(mark, damage+": it is fetched again")) > 0, true)
	n.WantRunnable(ref)
	nodetest.Want(t, "source", n.Labels(ref)["pull-source"], n.Registry.Host()+"/app:1")
	n.MustPull(ref, node.Hint("policy", "Never"))
	mark = n.Mark()
	n.MustPull(ref, node.Hint("policy", "Always"))
	nodetest.Want(t, "outcome of a check", n.Decision(mark, ref).Outcome, "Unchanged")
}

// TestLostFilesOfAnIndex loses the index, its manifest and a config, and CRI is
// started again without them.
func TestLostFilesOfAnIndex(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	index := resolvertest.Index(1, 2, 500)
	ref := nodetest.Named("app:1")
	target := n.Push("app:1", index)
	id := n.MustPull(ref)
	list, err := index.IndexManifest()
	n.Must(err)
	all := []digest.Digest{target, digest.Digest(id)}
	for _, m := range list.Manifests {
		if d := digest.Digest(m.Digest.String()); have(n, d) {
			all = append(all, d)
		}
	}
	nodetest.Want(t, "documents of the image", len(all), 3)
	n.Stop()
	lose(n, all...)
	n.Start()
	n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
	n.WantRunnable(ref)
	n.MustPull(ref, node.Hint("policy", "Never"))
}

// damageLayers pulls an image and damages the file of each layer that the node has.
func damageLayers(n *nodetest.Node, damage func(digest.Digest)) (ref string, layers []digest.Digest) {
	n.T.Helper()
	ref = nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	img, err := n.Client.GetImage(n.T.Context(), ref)
	n.Must(err)
	layers, err = layersOf(n, img)
	n.Must(err)
	n.CollectGarbage()
	for _, d := range layers {
		if have(n, d) { // else it was discarded when it was unpacked
			damage(d)
		}
	}
	n.Registry.Forget()
	return ref, layers
}

// TestLostLayers loses the files of layers. An image whose snapshots are there
// runs without; one whose snapshots are gone gets them again.
func TestLostLayers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime())
	ref, layers := damageLayers(n, func(d digest.Digest) { lose(n, d) })
	for policy, outcome := range map[string]string{"Always": "Unchanged", "IfDigestChanged": "Unchanged", "IfNotPresent": "Present", "Never": "Present"} {
		mark := n.Mark()
		n.MustPull(ref, node.Hint("policy", policy))
		nodetest.Want(t, "outcome under "+policy, n.Decision(mark, ref).Outcome, outcome)
	}
	nodetest.Want(t, "blobs that were fetched", n.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)

	// A runtime with another snapshotter needs them.
	n.MustPull(ref, node.RuntimeHandler("native"))
	nodetest.Want(t, "layers that were fetched", n.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)), len(layers))
	n.WantRunnableBy("native", ref)
	n.WantRunnable(ref)
}

// TestLostFilesAndClients has a client of the transfer service, as ctr is one,
// pull an image of which a file is lost.
func TestLostFilesAndClients(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	manifest := n.Push("app:1", nodetest.Image(1))
	n.Transfer(ref)
	lose(n, manifest)
	n.Transfer(ref)
	n.WaitForImage(ref)
	n.WantRunnable(ref)
}
