// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSizeThatAnotherRegistryClaims holds that a registry that has an image, too, and
// claims another size of its manifest, breaks the image by no other name.
func TestSizeThatAnotherRegistryClaims(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img := nodetest.Image(1)
	n.Push("app:1", img)
	n.MustPull(nodetest.Named("app:1"))

	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	n.PushTo(evil, "app:1", img)
	evil.Script(claimsOneMore(n, img, "/manifests/"))
	for range 2 {
		_, _ = n.Pull("evil.test/app:1", node.Hint("policy", "IfNotPresent"))
	}
	n.Registry.Refuse()
	for _, policy := range []string{"Never", "IfNotPresent", "IfDigestChanged"} {
		n.MustPull(nodetest.Named("app:1"), node.Hint("policy", policy))
	}
}

// TestSizeThatAMirrorClaimsOfASecondTag holds that a mirror which claims another size of the manifest, for a tag
// that moves to an image that is there, breaks that image by no name: the answer is invalid.
func TestSizeThatAMirrorClaimsOfASecondTag(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img, mirror := nodetest.Image(1), resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	digest := n.Push("app:1", img)
	n.PushTo(mirror, "app:1", img)
	n.PushTo(mirror, "app:2", nodetest.Image(2))
	tag, moved := nodetest.Named("app:1"), nodetest.Named("app:2")
	byDigest := nodetest.Named("app@" + digest.String())
	n.MustPull(tag)
	n.MustPull(moved)
	n.PushTo(mirror, "app:2", img)
	mirror.Script(claimsOneMore(n, img, "/manifests/2"))
	n.MustFail(moved, []string{"invalid"})
	mirror.Refuse()
	n.Registry.Refuse()
	for _, ref := range []string{tag, byDigest, moved} {
		for _, policy := range []string{"Never", "IfNotPresent", "IfDigestChanged"} {
			n.MustPull(ref, node.Hint("policy", policy))
		}
	}
}

// claimsOneMore claims, in answers to HEAD of paths with that part, that the manifest of the image has one byte more.
func claimsOneMore(n *nodetest.Node, img v1.Image, part string) resolvertest.ScriptFunc {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodHead && strings.Contains(r.URL.Path, part) {
			size, err := img.Size()
			n.Must(err)
			w = &claiming{ResponseWriter: w, size: size + 1}
		}
		next.ServeHTTP(w, r)
	}
}

// claiming is a ResponseWriter that claims another size of its answer.
type claiming struct {
	http.ResponseWriter
	size int64
}

// WriteHeader sends the size that is claimed.
func (c *claiming) WriteHeader(code int) {
	c.Header().Set("Content-Length", fmt.Sprint(c.size))
	c.ResponseWriter.WriteHeader(code)
}
