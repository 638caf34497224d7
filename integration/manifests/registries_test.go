// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRequests measures what a check costs: one request for an image, as with HEAD, and
// one more for an index, on the connection and with the token that there are.
func TestRequests(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	known := map[string]bool{} // connections
	for repository, want := range map[string]string{
		"head/image": "HEAD manifests", "read/image": "GET manifests",
		"head/index": "HEAD manifests", "read/index": "GET manifests, GET manifests",
	} {
		ref := nodetest.Named(repository + ":1")
		if repository[5:] == "index" {
			n.Push(repository+":1", resolvertest.Index(3, 2, 500))
		} else {
			n.Push(repository+":1", nodetest.Image(3))
		}
		wantPull(n, ref, "Pulled absent")
		n.Registry.Used(known)
		n.Registry.Forget()
		wantPull(n, ref, "Unchanged same_digest")
		nodetest.Want(t, "requests for "+repository, n.Requests(), want)
		nodetest.Want(t, "new connections for "+repository, n.Registry.Used(known), 0)
	}
}

// TestLyingRegistry holds that the bytes are the answer, and no header.
func TestLyingRegistry(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	wantPull(n, ref, "Pulled absent")
	undo := n.Registry.Corrupt(resolvertest.Manifests) // its digest in the header is the true one
	_, err := wantPull(n, ref, "Failed invalid")
	nodetest.WantWords(t, err, "instead of the promised")
	undo()
	undo = n.Registry.NoDigest(resolvertest.Manifests)
	wantPull(n, ref, "Unchanged same_digest")
	undo()
}

// TestSlowManifest stalls in the middle of the manifest: the check's time bounds that, and
// the host is in trouble like one that is silent.
func TestSlowManifest(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules, nodetest.Section(`verify_timeout = "2s"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	wantPull(n, ref, "Pulled absent")
	undo := n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodHead {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	})
	got, _ := wantPull(n, ref, "UsedCached unreachable")
	if took, err := time.ParseDuration(got.Elapsed); err != nil || took < time.Second || took > 20*time.Second {
		t.Errorf("took %v, %v", took, err)
	}
	nodetest.Eventually(t, "nobody waits for it any more", func() bool {
		mark := n.Mark()
		n.MustPull(ref, alice())
		took, err := time.ParseDuration(n.Decision(mark, ref).Elapsed)
		return err == nil && took < time.Second
	})
	undo()
	nodetest.Eventually(t, "it is asked again", func() bool {
		mark := n.Mark()
		n.MustPull(ref, alice())
		return n.Decision(mark, ref).Outcome == "Unchanged"
	})
}

// rulesByOrder have a folder of the registry for each value of resolve_from.
const rulesByOrder = `
[[rule]]
images = ["registry.test/mirrors/**"]
check_with = "Manifest"
[[rule]]
images = ["registry.test/origin/**"]
check_with = "Manifest"
resolve_from = "Origin"
[[rule]]
images = ["registry.test/need/**"]
check_with = "Manifest"
resolve_from = "OriginThenMirrors"
`

// TestQuarantinedMirror holds that a mirror's refusal is no more than any of a mirror, and
// that a mirror's yes is no answer where the origin's is wanted.
func TestQuarantinedMirror(t *testing.T) {
	t.Parallel()
	n := newNode(t, rulesByOrder)
	mirror := resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	for _, repository := range []string{"mirrors/app", "origin/app", "need/app"} {
		n.Push(repository+":1", nodetest.Image(1))
		n.PushTo(mirror, repository+":1", nodetest.Image(1))
		wantPull(n, nodetest.Named(repository+":1"), "Pulled absent")
	}

	undo := quarantine(mirror, "mirrors/app", http.StatusForbidden)
	got, _ := wantPull(n, nodetest.Named("mirrors/app:1"), "Unchanged same_digest")
	nodetest.Want(t, "who confirms", got.VerifiedBy, n.Registry.Host())
	undoOrigin := quarantine(n.Registry, "mirrors/app", http.StatusForbidden)
	wantPull(n, nodetest.Named("mirrors/app:1"), "Failed forbidden")
	undo()
	undoOrigin()
	got, _ = wantPull(n, nodetest.Named("mirrors/app:1"), "Unchanged same_digest")
	nodetest.Want(t, "who confirms", got.VerifiedBy, mirror.Host())

	for _, repository := range []string{"origin/app", "need/app"} {
		undo := quarantine(n.Registry, repository, http.StatusForbidden)
		wantPull(n, nodetest.Named(repository+":1"), "Failed forbidden")
		undo()
		wantPull(n, nodetest.Named(repository+":1"), "Unchanged same_digest")
	}
	undo = quarantine(mirror, "need/app", http.StatusForbidden)
	n.Registry.Refuse()
	wantPull(n, nodetest.Named("need/app:1"), "UsedCached unreachable")
	undo()
	wantPull(n, nodetest.Named("need/app:1"), "UsedCached mirror_fallback")
}

// TestWhoseCheckCounts holds that a check of the digest alone makes nothing fresh for a
// rule that wants the manifest read, whoever made it and whenever, nor the other way round;
// and that such a check makes no earlier one with the manifest worthless.
func TestWhoseCheckCounts(t *testing.T) {
	t.Parallel()
	const aged = "[[rule]]\nimages = [\"**\"]\nmax_age = \"1h\"\n"
	n := newNode(t, "[[rule]]\nimages = [\"**\"]\nmax_age = \"1h\"\nnamespaces = [\"head\"]\n"+aged+"check_with = \"Manifest\"\n")
	n.Push("app:1", nodetest.Image(1))
	ref, head := nodetest.Named("app:1"), node.Pod("head", "pod")
	wantPull(n, ref, "Pulled absent", head)
	wantPull(n, ref, "Fresh max_age", head)
	quarantine(n.Registry, "app", http.StatusForbidden)()
	wantPull(n, ref, "Unchanged same_digest")
	wantPull(n, ref, "Fresh max_age")
	nodetest.Eventually(t, "it is on the record", func() bool { return n.Labels(ref)["manifest-read"] != "" })
	nodetest.Want(t, "what is there", n.Labels(ref)["manifest-read"], n.Labels(ref)["verified-at"]+" "+n.Registry.Host())
	wantPull(n, ref, "Unchanged same_digest", head, node.Hint("max-age", "0s"))
	wantPull(n, ref, "Fresh max_age")

	// A rule that is switched trusts no check from before, and a restart changes nothing.
	n.Push("switched:1", nodetest.Image(2))
	switched := nodetest.Named("switched:1")
	wantPull(n, switched, "Pulled absent", head)
	n.WriteRules("10.toml", aged+"check_with = \"Manifest\"\n")
	nodetest.Eventually(t, "the rule is in force", func() bool {
		mark := n.Mark()
		n.MustPull(ref, alice(), head)
		return n.Decision(mark, ref).Outcome == "Fresh" && n.Explain(switched, alice(), head) == "Unchanged"
	})
	n.Restart()
	wantPull(n, switched, "Unchanged same_digest", head)
	wantPull(n, switched, "Fresh max_age", head)
	wantPull(n, ref, "Fresh max_age")
}
