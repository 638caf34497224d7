// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRequests holds what each way through the policies costs the registry.
func TestRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	ref := named("app:1")
	byDigest := named("app@" + n.push("app:other", image(1)).String())
	n.mustPull(ref)

	tests := []struct {
		name    string
		trouble func() (undo func())
		ref     string
		policy  string
		cost    string
	}{
		{"unchanged", nil, ref, "Always", "HEAD manifests"},
		{"unchanged", nil, ref, "IfDigestChanged", "HEAD manifests"},
		{"unchanged without a length", func() func() { return n.r.NoLength(resolvertest.Manifests) }, ref, "Always", "HEAD manifests"},
		{"unchanged without a digest", func() func() { return n.r.NoDigest(resolvertest.Manifests) }, ref, "Always", "HEAD manifests, GET manifests"},
		{"unchanged without HEAD", n.r.NoHead, ref, "Always", "HEAD manifests, GET manifests"},
		{"present", nil, ref, "IfNotPresent", ""},
		{"present", nil, ref, "Never", ""},
		{"by digest", nil, byDigest, "Always", ""},
		{"by digest", nil, byDigest, "IfDigestChanged", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.policy, func(t *testing.T) {
			if tt.trouble != nil {
				defer tt.trouble()()
			}
			n.r.Forget()
			mark := n.mark()
			if _, err := n.pull(tt.ref, hint("policy", tt.policy)); err != nil {
				t.Fatal(err)
			}
			want(t, "requests", n.requests(), tt.cost)
			if out := n.decision(mark, tt.ref).outcome; out == "Pulled" || out == "Failed" {
				t.Errorf("outcome is %s", out)
			}
		})
	}
}

// TestChangeCosts holds that after a change, the manifest and just the missing
// blobs are fetched, all by digest.
func TestChangeCosts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	n.mustPull(named("app:1"))
	changed := n.push("app:1", image(2))
	n.r.Forget()
	n.mustPull(named("app:1"))
	want(t, "HEADs", n.r.Count(resolvertest.Of(http.MethodHead, resolvertest.All)), 1)
	want(t, "manifests", n.r.Count(resolvertest.Of(http.MethodGet, resolvertest.Manifests)), 1)
	want(t, "blobs", n.r.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)), 3)
	for _, r := range n.r.Requests() {
		if r.Method == http.MethodGet && r.Part == resolvertest.Manifests && r.Path != "/v2/app/manifests/"+changed.String() {
			t.Errorf("the manifest was fetched as %s", r.Path)
		}
	}
}
