// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// Record returns the record of an image; ok is false where there is none.
func (n *Node) Record(ref string) (img images.Image, ok bool) {
	n.T.Helper()
	img, err := n.Node.Record(n.T.Context(), ref)
	if errdefs.IsNotFound(err) {
		return img, false
	}
	if err != nil {
		n.T.Fatalf("read the record of %s: %v", ref, err)
	}
	return img, true
}

// Target returns the digest of an image's record, "" where there is none.
func (n *Node) Target(ref string) digest.Digest {
	n.T.Helper()
	img, _ := n.Record(ref)
	return img.Target.Digest
}

// Labels returns pullwarden's labels on an image's record, without the prefix.
func (n *Node) Labels(ref string) map[string]string {
	n.T.Helper()
	img, ok := n.Record(ref)
	if !ok {
		n.T.Fatalf("there is no image %s", ref)
	}
	return node.Own(img.Labels)
}

// SetLabels changes labels of pullwarden on a record; an empty value takes the
// label away.
func (n *Node) SetLabels(ref string, labels map[string]string) {
	n.T.Helper()
	if err := n.Node.SetLabels(n.T.Context(), ref, labels); err != nil {
		n.T.Fatalf("change the labels of %s: %v", ref, err)
	}
}

// WaitForWrites waits until what the store writes behind the answers so far is written, so
// that labels which a test sets are not set back. The store writes in order, and this is
// one more check: of ref, an image that the test has no other use for.
func (n *Node) WaitForWrites(ref string, opts ...node.PullOption) {
	n.T.Helper()
	const label, never = "verified-at", "2001-01-01T00:00:00Z"
	n.MustPull(ref, opts...)
	n.SetLabels(ref, map[string]string{label: never})
	n.MustPull(ref, append(slices.Clone(opts), node.Hint("policy", "Always"))...)
	Eventually(n.T, "the check is written", func() bool { return n.Labels(ref)[label] != never })
}

// Status returns what CRI says of an image, with verbose information.
func (n *Node) Status(ref string) *runtimeapi.ImageStatusResponse {
	n.T.Helper()
	resp, err := n.Node.Status(n.T.Context(), ref)
	if err != nil {
		n.T.Fatalf("status of %s: %v", ref, err)
	}
	return resp
}

// Annotations returns pullwarden's annotations of an image, as CRI shows them,
// without the prefix.
func (n *Node) Annotations(ref string) map[string]string {
	n.T.Helper()
	return node.Own(n.Status(ref).GetImage().GetSpec().GetAnnotations())
}

// List returns the images that CRI lists.
func (n *Node) List() []*runtimeapi.Image {
	n.T.Helper()
	all, err := n.Node.List(n.T.Context())
	if err != nil {
		n.T.Fatalf("list images: %v", err)
	}
	return all
}

// Remove removes an image through CRI.
func (n *Node) Remove(ref string) {
	n.T.Helper()
	if err := n.Node.Remove(n.T.Context(), ref); err != nil {
		n.T.Fatalf("remove %s: %v", ref, err)
	}
}

// Import imports an image under that name, as an operator does who preloads
// images, and waits until CRI has heard of it. It must have no labels.
func (n *Node) Import(ref string, img v1.Image) {
	n.T.Helper()
	if err := n.Node.Import(n.T.Context(), ref, img); err != nil {
		n.T.Fatalf("import %s: %v", ref, err)
	}
	n.WaitForImage(ref)
	if own := n.Labels(ref); len(own) > 0 {
		n.T.Errorf("an imported image has labels: %v", slices.Sorted(maps.Keys(own)))
	}
}

// ImportOver imports an image over a record that there is, which keeps its labels,
// and waits until CRI has heard of it.
func (n *Node) ImportOver(ref string, img v1.Image) {
	n.T.Helper()
	labels := n.Labels(ref)
	if err := n.Node.Import(n.T.Context(), ref, img); err != nil {
		n.T.Fatalf("import %s: %v", ref, err)
	}
	if got := n.Labels(ref); !maps.Equal(got, labels) {
		n.T.Errorf("the import changed the labels from %v to %v", labels, got)
	}
	id, err := img.ConfigName()
	n.Must(err)
	Eventually(n.T, fmt.Sprintf("CRI has the imported image as %s", ref), func() bool {
		return n.Status(ref).GetImage().GetId() == id.String()
	})
}

// TagLocal gives an image another name, with all of its labels, and waits until
// CRI has heard of it.
func (n *Node) TagLocal(from, to string) {
	n.T.Helper()
	if err := n.Node.TagLocal(n.T.Context(), from, to); err != nil {
		n.T.Fatalf("tag %s as %s: %v", from, to, err)
	}
	n.WaitForImage(to)
}

// WaitForImage waits until CRI has heard of an image that another client pulled
// or imported.
func (n *Node) WaitForImage(ref string) {
	n.T.Helper()
	Eventually(n.T, fmt.Sprintf("CRI knows %s", ref), func() bool { return n.Status(ref).GetImage() != nil })
}
