// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/transfer/registry"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// Pull asks CRI for an image, as a kubelet does. It returns the image ID.
func (n *Node) Pull(ref string, opts ...node.PullOption) (id string, err error) {
	return n.Node.Pull(n.context(), ref, opts...)
}

// MustPull pulls, and ends the test on an error.
func (n *Node) MustPull(ref string, opts ...node.PullOption) (id string) {
	n.T.Helper()
	id, err := n.Pull(ref, opts...)
	if err != nil {
		n.T.Fatalf("pull %s: %v", ref, err)
	}
	return id
}

// MustFail pulls, ends the test if that works, and wants each of the words in
// the error's message.
func (n *Node) MustFail(ref string, words []string, opts ...node.PullOption) error {
	n.T.Helper()
	id, err := n.Pull(ref, opts...)
	if err == nil {
		n.T.Fatalf("pull %s gives %s, want an error", ref, id)
	}
	WantWords(n.T, err, words...)
	return err
}

// RegistryUnavailable reports whether the kubelet turns the error of a pull into
// its own reason.
func RegistryUnavailable(err error) bool {
	return node.KubeletReason(err) == node.ReasonRegistryUnavailable
}

// Transfer pulls as ctr does, past CRI, with options of its command line.
// Default: with the node's hosts.toml files. CRI knows the image then, of which it hears by an event, unless it cannot read it.
func (n *Node) Transfer(ref string, opts ...registry.Opt) {
	n.T.Helper()
	if err := n.Node.Transfer(n.T.Context(), ref, opts...); err != nil {
		n.T.Fatalf("pull %s as a client: %v", ref, err)
	}
	for began := time.Now(); time.Since(began) < 2*time.Second && !n.lists(ref); {
		time.Sleep(10 * time.Millisecond)
	}
}

// lists reports whether CRI lists an image by that name.
func (n *Node) lists(ref string) bool {
	all, err := n.Node.List(n.T.Context())
	return err == nil && slices.ContainsFunc(all, func(img *runtimeapi.Image) bool {
		return slices.Contains(img.GetRepoTags(), ref) || slices.Contains(img.GetRepoDigests(), ref)
	})
}
