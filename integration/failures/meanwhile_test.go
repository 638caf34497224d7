// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// begin begins a pull.
func begin(n *nodetest.Node, ref string, opts ...node.PullOption) (result <-chan error) {
	done := make(chan error, 1)
	go func() {
		_, err := n.Pull(ref, opts...)
		done <- err
	}()
	return done
}

// TestPushedDuringADownload pushes another image while the one before is being
// downloaded: a pod that asks then gets the new one.
func TestPushedDuringADownload(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	before := n.Push("app:1", nodetest.Image(1))
	undo := n.Registry.Hang(resolvertest.Blobs)
	mark := n.Mark()
	first := begin(n, ref)
	nodetest.Eventually(t, "the first image is being downloaded", func() bool {
		return n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0
	})
	after := n.Push("app:1", nodetest.Image(2))
	n.Registry.Forget()
	second := begin(n, ref)
	nodetest.Eventually(t, "the registry is asked again", func() bool {
		return n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Manifests)) > 0
	})
	undo()
	for _, result := range []<-chan error{first, second} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	nodetest.Want(t, "target", n.Target(ref), after)
	got := map[string]bool{}
	for _, d := range n.Decisions(mark, ref) {
		got[d.Digest] = true
		nodetest.Want(t, "outcome", d.Outcome, "Pulled")
		nodetest.Want(t, "coalesced", d.Coalesced, false)
	}
	if !got[before.String()] || !got[after.String()] {
		t.Errorf("the pods got %v", got)
	}
	n.WantRunnable(ref)
	n.WantTrueLabels()
}

// TestRolledBackDuringADownload rolls a tag back while the withdrawn image is being downloaded,
// and the registry tells another pod so. The download that ends later does not give the tag to
// what the registry has withdrawn, nor its own pod.
func TestRolledBackDuringADownload(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `max_age = "1h"`))
	ref := nodetest.Named("app:1")
	good := n.Push("app:1", nodetest.Image(1))
	id := n.MustPull(ref)
	n.Push("app:1", nodetest.Image(2))
	undo := n.Registry.Hang(resolvertest.Blobs)
	n.Registry.Forget()
	now := node.Hint("max-age", "0s")
	first := begin(n, ref, now)
	nodetest.Eventually(t, "the withdrawn image is being downloaded", func() bool {
		return n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0
	})
	n.Push("app:1", nodetest.Image(1))
	mark := n.Mark()
	nodetest.Want(t, "after the roll-back", n.MustPull(ref, now), id)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
	mark = n.Mark()
	undo()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	nodetest.Want(t, "outcome of the download", n.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Want(t, "target", n.Target(ref), good)
	nodetest.Want(t, "verified-digest", n.Labels(ref)["verified-digest"], good.String())
	nodetest.Want(t, "inside max_age", n.MustPull(ref), id)
	n.Registry.Refuse()
	nodetest.Want(t, "while the registry is down", n.MustPull(ref, now), id)
	n.WantTrueLabels()
}

// TestRemovedDuringACheck removes an image while the registry is asked about it:
// it is pulled, and no fallback has what is gone.
func TestRemovedDuringACheck(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1m"`)) // while the image is removed
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	for what, code := range map[string]int{"answers": http.StatusOK, "fails": http.StatusServiceUnavailable} {
		n.MustPull(ref)
		asked, goOn := make(chan struct{}, 10), make(chan struct{})
		undo := n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodHead {
				asked <- struct{}{}
				<-goOn
				if code != http.StatusOK {
					w.WriteHeader(code)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
		mark := n.Mark()
		result := begin(n, ref)
		<-asked
		n.Remove(ref)
		close(goOn)
		err := <-result
		undo()
		if code != http.StatusOK {
			nodetest.Want(t, what+": fails", err != nil, true)
			nodetest.Want(t, what+": class", n.Decision(mark, ref).Class, "unavailable")
			n.WriteHosts("registry.test", n.Server(n.Registry)+"# well again")
			continue
		}
		nodetest.Want(t, what, err, nil)
		nodetest.Want(t, what+": outcome", n.Decision(mark, ref).Outcome, "Pulled")
		n.WantRunnable(ref)
	}
}
