// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestVerifierTellsNothing has the node's image verifier refuse an image that was pulled before, and
// the registry its manifest or not: who has proved nothing is told the same as without the image.
func TestVerifierTellsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(40000)
	for _, code := range []int{0, 403} {
		for _, policy := range []string{"Always", "IfNotPresent"} {
			refused := func(repository string, here bool) string {
				seed++
				n.Push(repository+":1", resolvertest.Image(seed, 2, 500))
				ref := nodetest.Named(repository + ":1")
				if here {
					n.MustPull(ref, alice())
				}
				script := n.Path("verifiers", "verifier")
				n.Must(os.WriteFile(script, []byte("#!/bin/sh\necho not signed\nexit 1\n"), 0o700))
				defer os.Remove(script)
				if code != 0 {
					defer quarantine(n.Registry, repository, code)()
				}
				_, err := n.Pull(ref, bob, node.Hint("policy", policy))
				if err == nil {
					t.Fatalf("%s: pulled", repository)
				}
				return told(err, repository)
			}
			name := "head/verified" + strings.ToLower(policy) + map[int]string{0: "", 403: "refused"}[code]
			if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
				t.Errorf("%s:\nhere: %s\ngone: %s", name, here, gone)
			}
		}
	}
}

// TestVerifierBehindAMovedTag has the verifier refuse the image that the node has alone, after its
// tag has moved on: who has proved nothing gets the one of the tag, as without that image.
func TestVerifierBehindAMovedTag(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	ref := nodetest.Named("head/verifiedmoved:1")
	old := n.Push("head/verifiedmoved:1", resolvertest.Index(41000, 2, 500))
	n.MustPull(ref, alice())
	n.Push("head/verifiedmoved:1", resolvertest.Index(41001, 2, 500))
	refusing := "#!/bin/sh\ncase \"$*\" in *" + old.String() + "*) echo not signed; exit 1;; esac\n"
	n.Must(os.WriteFile(n.Path("verifiers", "verifier"), []byte(refusing), 0o700))
	mark := n.Mark()
	n.MustPull(ref, node.Credentials("bob", "Pa55-of-bob-0123456789"), node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
}

// TestVerifierOfAFallback has the registry fail, and the verifier refuse the image that would be
// used in its place: that is no failure of the registry, of which the error still tells.
func TestVerifierOfAFallback(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	for code, class := range map[int]string{503: "unavailable", 404: "not_found"} {
		repository := "head/verified" + class
		n.Push(repository+":1", resolvertest.Image(int64(42000+code), 2, 500))
		ref := nodetest.Named(repository + ":1")
		n.MustPull(ref, alice())
		script := n.Path("verifiers", "verifier")
		n.Must(os.WriteFile(script, []byte("#!/bin/sh\necho not signed\nexit 1\n"), 0o700))
		n.Registry.Status(resolvertest.Manifests, code)
		_, err := n.Pull(ref, alice(), node.Hint("policy", "IfDigestChanged"), node.Hint("verify-timeout", "1s"))
		n.Must(os.Remove(script))
		n.Restore()
		if err == nil {
			t.Fatal("pulled")
		}
		nodetest.Want(t, "code", status.Code(err), codes.FailedPrecondition)
		for _, part := range []string{": verifier under ", "not signed", "; check: " + class + ": host " + n.Registry.Host()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
	}
}
