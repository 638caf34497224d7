// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRequests holds what each way through the policies costs the registry.
func TestRequests(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	byDigest := nodetest.Named("app@" + n.Push("app:other", nodetest.Image(1)).String())
	n.MustPull(ref)

	tests := []struct {
		name   string
		fault  func() (undo func())
		ref    string
		policy string
		cost   string
	}{
		{"unchanged", nil, ref, "Always", "HEAD manifests"},
		{"unchanged", nil, ref, "IfDigestChanged", "HEAD manifests"},
		{"unchanged without a length", func() func() { return n.Registry.NoLength(resolvertest.Manifests) }, ref, "Always", "HEAD manifests"},
		{"unchanged without a digest", func() func() { return n.Registry.NoDigest(resolvertest.Manifests) }, ref, "Always", "HEAD manifests, GET manifests"},
		{"unchanged without HEAD", n.Registry.NoHead, ref, "Always", "HEAD manifests, GET manifests"},
		{"present", nil, ref, "IfNotPresent", ""},
		{"present", nil, ref, "Never", ""},
		{"by digest", nil, byDigest, "Always", ""},
		{"by digest", nil, byDigest, "IfDigestChanged", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.policy, func(t *testing.T) {
			if tt.fault != nil {
				defer tt.fault()()
			}
			n.Registry.Forget()
			mark := n.Mark()
			if _, err := n.Pull(tt.ref, node.Hint("policy", tt.policy)); err != nil {
				t.Fatal(err)
			}
			nodetest.Want(t, "requests", n.Requests(), tt.cost)
			if out := n.Decision(mark, tt.ref).Outcome; out == "Pulled" || out == "Failed" {
				t.Errorf("outcome is %s", out)
			}
		})
	}
}

// TestChangeCosts holds that after a change, the manifest and just the missing
// blobs are fetched, all by digest.
func TestChangeCosts(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	changed := n.Push("app:1", nodetest.Image(2))
	n.Registry.Forget()
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Want(t, "HEADs", n.Registry.Count(resolvertest.Of(http.MethodHead, resolvertest.All)), 1)
	nodetest.Want(t, "manifests", n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Manifests)), 1)
	nodetest.Want(t, "blobs", n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)), 3)
	for _, r := range n.Registry.Requests() {
		if r.Method == http.MethodGet && r.Part == resolvertest.Manifests && r.Path != "/v2/app/manifests/"+changed.String() {
			t.Errorf("the manifest was fetched as %s", r.Path)
		}
	}
}
