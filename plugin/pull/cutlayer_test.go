// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A layer of which a crash has cut the file is not missed where it is unpacked: neither by a pull of the
// same image, nor by one of the next version, which shares it.
func TestCutLayerThatIsUnpacked(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(filepath.Dir(t.TempDir()), "001", "content")
	base := resolvertest.Image(1, 2, 100)
	ref, _ := n.push("team/app:1", base)
	n.pull(settings(), ref, "")
	compressed, _ := layers(t, base)
	file := filepath.Join(dir, "blobs", "sha256", compressed[0].Encoded())
	check(t, os.Chmod(file, 0o600))
	check(t, os.Truncate(file, 10))

	// The very image once more: nothing is missed.
	if _, err := n.puller(settings()).Pull(n.ctx, n.plan(ref), ""); err != nil {
		t.Errorf("the same image again: %v", err)
	}
	more, err := resolvertest.Image(7, 1, 100).Layers()
	check(t, err)
	next, err := mutate.AppendLayers(base, more...)
	check(t, err)
	n.push("team/app:1", next)
	if _, err := n.puller(settings()).Pull(n.ctx, n.plan(ref), ""); err != nil {
		t.Errorf("the next version: %v", err)
	}
}

// A tag that has moved on in the records, of which CRI's index does not say so yet, has nothing unpacked:
// the image of the container is another one.
func TestUnpackOfATagThatMovedOn(t *testing.T) {
	n := newNode(t)
	a := resolvertest.Image(1, 2, 100)
	ref, _ := n.push("team/app:1", a)
	id := n.pull(settings(), ref, "")
	n.push("team/app:1", resolvertest.Image(5, 2, 100))
	n.pull(settings(), ref, "")
	p := n.puller(settings())
	check(t, p.Unpack(n.ctx, id, []string{ref}, "second"))
	_, diffIDs := layers(t, resolvertest.Image(5, 2, 100))
	if n.snapshot("second", identity.ChainID(diffIDs)) != nil {
		t.Error("another image is unpacked")
	}
}
