// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Named returns the name of "repository:tag" of registry.test.
func Named(ref string) string { return "registry.test/" + ref }

// Image makes a small image. Another seed gives another image.
func Image(seed int64) v1.Image { return resolvertest.Image(seed, 2, 500) }

// OpenToAll is a registry with token authentication in which everybody may
// pull.
func OpenToAll(t testing.TB) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(nil))
	r.Allow(func(string, string) bool { return true })
	return r
}

// Push pushes "repository:tag" to the node's registry.
func (n *Node) Push(ref string, what resolvertest.Pushable) digest.Digest {
	n.T.Helper()
	return n.PushTo(n.Registry, ref, what)
}

// PushTo pushes "repository:tag" to a registry.
func (n *Node) PushTo(r *resolvertest.Registry, ref string, what resolvertest.Pushable) digest.Digest {
	n.T.Helper()
	d, err := r.Push(n.T.Context(), ref, what)
	n.Must(err)
	return d
}

// Tag moves a tag of the node's registry to what the digest names there.
func (n *Node) Tag(repository, tag string, d digest.Digest) {
	n.T.Helper()
	n.Must(n.Registry.Tag(n.T.Context(), repository, tag, d))
}

// DeleteTag deletes a tag of the node's registry.
func (n *Node) DeleteTag(repository, tag string) {
	n.T.Helper()
	n.Must(n.Registry.DeleteTag(n.T.Context(), repository, tag))
}

// Restore ends the faults of the node's registry.
func (n *Node) Restore() {
	n.T.Helper()
	n.Must(n.Registry.Restore())
}

// Recover ends the faults of the node's registry, which stands behind registry.test without
// mirrors, and has the node forget them by another hosts.toml: a busy machine may have
// taken so long for a connection that is refused that it is remembered as a time-out.
func (n *Node) Recover() {
	n.T.Helper()
	n.Restore()
	n.WriteHosts("registry.test", n.Server(n.Registry)+fmt.Sprintf("# recovery %d\n", recoveries.Add(1)))
}

// recoveries counts them, so that no two files are the same.
var recoveries atomic.Int64

// Requests returns what the node's registry was asked since its Forget, probes aside, one
// "METHOD part" each, with commas between.
func (n *Node) Requests() string {
	var all []string
	for _, r := range n.Registry.Requests() {
		if resolvertest.NoProbe(r) {
			all = append(all, r.Method+" "+string(r.Part))
		}
	}
	return strings.Join(all, ", ")
}
