// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// refusals are what registries send for a manifest in quarantine, and what becomes of a
// pod whose image is unchanged.
var refusals = map[int]string{
	http.StatusForbidden:                  "Failed forbidden",
	http.StatusNotFound:                   "UsedCached not_found",
	http.StatusGone:                       "UsedCached not_found",
	http.StatusPreconditionFailed:         "Failed invalid", // Harbor
	http.StatusUnavailableForLegalReasons: "Failed invalid",
}

// TestQuarantine quarantines an image that has not changed. A check with HEAD takes it for
// unchanged, one with the manifest sees the refusal, and that it is over.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	for code, want := range refusals {
		for _, kind := range []string{"image", "index"} {
			t.Run(fmt.Sprintf("%d %s", code, kind), func(t *testing.T) {
				n := n.In(t)
				seed := int64(code)
				for _, with := range []string{"head", "read"} {
					repository := fmt.Sprintf("%s/%s%d", with, kind, code)
					ref := nodetest.Named(repository + ":1")
					refused := []digest.Digest{}
					if kind == "index" {
						n.Push(repository+":1", resolvertest.Index(seed, 2, 500))
						refused = append(refused, platformOf(t, seed))
					} else {
						n.Push(repository+":1", nodetest.Image(seed))
					}
					wantPull(n, ref, "Pulled absent")
					wantPull(n, ref, "Unchanged same_digest")
					undo := quarantine(n.Registry, repository, code, refused...)
					if with == "head" {
						wantPull(n, ref, "Unchanged same_digest")
						undo()
						continue
					}
					nodetest.Want(t, "explained", n.Explain(ref, alice()), strings.Fields(want)[0])
					got, err := wantPull(n, ref, want)
					if !strings.Contains(got.DecidedBy, `check_with=Manifest(rule 10.toml#2)`) {
						t.Errorf("decided by %s", got.DecidedBy)
					}
					if err != nil && code != http.StatusForbidden {
						nodetest.WantWords(t, err, "PROJECTPOLICYVIOLATION: in quarantine", fmt.Sprint(code))
					}
					wantPull(n, ref, "Failed "+strings.Fields(want)[1], node.Hint("policy", "Always"))
					undo()
					wantPull(n, ref, "Unchanged same_digest")
				}
			})
		}
	}
}

// TestQuarantineEndsProofs holds that a 403 for the manifest is a refusal like any other:
// no outage lets that caller in, until the registry has let it in again.
func TestQuarantineEndsProofs(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	never := node.Hint("policy", "Never")
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	wantPull(n, ref, "Pulled absent")
	wantPull(n, ref, "Present policy", never)
	undo := quarantine(n.Registry, "app", http.StatusForbidden)
	wantPull(n, ref, "Failed forbidden")
	wantPull(n, ref, "Failed unproved", never)
	n.Registry.Refuse()
	wantPull(n, ref, "Failed unreachable")
	n.Restore()

	// A caller that has proved nothing, and wants no more than that, asks in the same way.
	wantPull(n, ref, "Failed forbidden", node.Hint("policy", "IfNotPresent"))
	undo()
	wantPull(n, ref, "Unchanged proved", node.Hint("policy", "IfNotPresent"))
	wantPull(n, ref, "Present policy", never)
}

// TestQuarantinedPlatform pulls an index that has changed around a manifest that is on the
// node already, and is refused now: containerd would not ask for it. A new index has to come
// with all of its documents, whatever the check asks with.
func TestQuarantinedPlatform(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	for _, repository := range []string{"head/app", "read/app"} {
		ref := nodetest.Named(repository + ":1")
		n.Push(repository+":1", resolvertest.Index(7, 2, 500))
		wantPull(n, ref, "Pulled absent")
		before := n.Target(ref)
		n.Push(repository+":1", resolvertest.Index(7, 2, 500, "linux/amd64", "linux/arm64", "linux/riscv64"))
		undo := quarantine(n.Registry, repository, http.StatusForbidden, platformOf(t, 7))
		wantPull(n, ref, "Failed forbidden")
		nodetest.Want(t, "target", n.Target(ref), before)
		undo()
		wantPull(n, ref, "Pulled changed")
		if n.Target(ref) == before {
			t.Error("the image is the one of before")
		}
		wantPull(n, ref, "Unchanged same_digest")
	}
	n.WantTrueLabels()
}

// TestQuarantinedPlatformBehindAMirror pulls an index for the first time, with a mirror that
// has its manifest. It is the registry's refusal that counts, whose answers decide.
func TestQuarantinedPlatformBehindAMirror(t *testing.T) {
	t.Parallel()
	n := newNode(t, rulesByOrder)
	mirror := resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	for repository, want := range map[string]string{"origin/app": "Failed forbidden", "need/app": "Failed forbidden", "mirrors/app": "Pulled absent"} {
		n.Push(repository+":1", resolvertest.Index(7, 2, 500))
		n.PushTo(mirror, repository+":1", resolvertest.Index(7, 2, 500))
		undo := quarantine(n.Registry, repository, http.StatusForbidden, platformOf(t, 7))
		wantPull(n, nodetest.Named(repository+":1"), want)
		undo()
		if want != "Pulled absent" {
			wantPull(n, nodetest.Named(repository+":1"), "Pulled absent")
		}
		wantPull(n, nodetest.Named(repository+":1"), "Unchanged same_digest")
	}
	n.WantTrueLabels()
}

// TestObservedQuarantine holds that mode = "Observe" lets the pull be, and tells of it.
func TestObservedQuarantine(t *testing.T) {
	t.Parallel()
	n := newNode(t, "[[rule]]\nimages = [\"**\"]\ncheck_with = \"Manifest\"\nmode = \"Observe\"\n")
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	pull := func() (mark node.Mark) {
		mark = n.Mark()
		n.MustPull(ref, alice())
		nodetest.Eventually(t, "it is told", func() bool { return len(n.Decisions(mark, ref)) > 0 })
		return mark
	}
	pull()
	quarantine(n.Registry, "app", http.StatusForbidden)
	mark := pull()
	if got := n.Decision(mark, ref); got.Outcome != "NotObserved" {
		nodetest.Want(t, "told", got.Outcome+" "+got.Reason, "Failed forbidden")
	}
}
