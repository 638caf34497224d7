// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestLabels follows the labels of an image through pulls, re-pulls, checks
// and restarts.
func TestLabels(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	first := n.Push("app:1", nodetest.Image(1))
	began := time.Now().Truncate(time.Second)
	n.MustPull(ref)

	check := func(what, dgst string) map[string]string {
		t.Helper()
		for _, name := range []string{ref, nodetest.Named("app@" + dgst)} {
			nodetest.Eventually(t, what+": "+name+" is verified", func() bool {
				l := n.Labels(name)
				return l["verified-digest"] == dgst && l["verified-at"] != "" && l["verified-by"] == n.Registry.Host() &&
					l["pull-source"] == n.Registry.Host()+"/app:1"
			})
			l := n.Labels(name)
			for _, key := range []string{"verified-at", "pulled-at"} {
				at, err := time.Parse(time.RFC3339, l[key])
				if err != nil || at.Location() != time.UTC || at.Before(began) || at.After(time.Now().Add(time.Second)) {
					t.Errorf("%s: %s of %s is %q", what, key, name, l[key])
				}
			}
		}
		return n.Labels(ref)
	}
	pulled := check("first pull", first.String())

	n.MustPull(ref)
	checked := check("a check", first.String())
	nodetest.Want(t, "pulled-at after a check", checked["pulled-at"], pulled["pulled-at"])

	n.Restart()
	// The last check may have been written since it was looked at.
	if after := n.Labels(ref)["verified-at"]; after < checked["verified-at"] {
		t.Errorf("verified-at is %s after a restart and was %s before", after, checked["verified-at"])
	}
	check("a restart", first.String())

	second := n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	check("a change", second.String())

	// A re-pull by stock containerd rewrites the record: nothing is left that
	// could be untrue.
	n.Remove(ref)
	if _, ok := n.Record(ref); ok {
		t.Error("the labels did not go with the image")
	}
	n.MustPull(ref)
	check("a pull after removal", second.String())
}

// written waits until what the store has to write is written.
func written(n *nodetest.Node) {
	n.T.Helper()
	n.Push("writes:1", nodetest.Image(1000))
	n.WaitForWrites(nodetest.Named("writes:1"))
}

// TestUnreadableLabels holds that a label that cannot be read means "not
// checked", and does no other harm.
func TestUnreadableLabels(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`max_age = "1h"`))
	dgst := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	written(n)
	outcome := func() string {
		mark := n.Mark()
		n.MustPull(ref)
		return n.Decision(mark, ref).Outcome
	}
	for name, labels := range map[string]map[string]string{
		"bad time":        {"verified-at": "soon"},
		"bad digest":      {"verified-digest": "sha256:short"},
		"other digest":    {"verified-digest": "sha256:" + dgst.Encoded()[:62] + "00"},
		"no time":         {"verified-at": ""},
		"no digest":       {"verified-digest": ""},
		"in the future":   {"verified-at": time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)},
		"all of it wrong": {"verified-at": "x", "verified-digest": "y", "pulled-at": "z", "stale-since": "u", "stale-reason": "v"},
	} {
		t.Run(name, func(t *testing.T) {
			n.SetLabels(ref, labels)
			nodetest.Want(t, "outcome", outcome(), "Unchanged")
			nodetest.Eventually(t, "the check is recorded again", func() bool {
				l := n.Labels(ref)
				at, err := time.Parse(time.RFC3339, l["verified-at"])
				return err == nil && time.Since(at).Abs() < time.Minute && l["verified-digest"] == dgst.String()
			})
			nodetest.Want(t, "outcome of the next", outcome(), "Fresh")
		})
	}
}

// TestEarlierCheckInTheFuture holds that the check of another host, which lies in the future since
// the clock went back, makes no newer one worthless.
func TestEarlierCheckInTheFuture(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`max_age = "1h"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	written(n)
	future := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	n.SetLabels(ref, map[string]string{"verified-at.earlier": future + " other.test"})
	mark := n.Mark()
	n.MustPull(ref)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Fresh")
}

// TestMaxAge holds that a young check counts without a request, also after a
// restart, and an old one does not.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`max_age = "1h"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	pull := func(opts ...node.PullOption) (outcome string) {
		t.Helper()
		mark := n.Mark()
		n.Registry.Forget()
		n.MustPull(ref, opts...)
		return n.Decision(mark, ref).Outcome
	}
	nodetest.Eventually(t, "the check counts", func() bool { return pull() == "Fresh" })
	nodetest.Want(t, "requests", n.Requests(), "")
	n.Restart()
	nodetest.Want(t, "outcome after a restart", pull(), "Fresh")
	nodetest.Want(t, "outcome for who wants it younger", pull(node.Hint("max-age", "0s")), "Unchanged")
	written(n)
	n.SetLabels(ref, map[string]string{"verified-at": time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)})
	nodetest.Want(t, "outcome for an old check", pull(), "Unchanged")
	nodetest.Eventually(t, "the check counts again", func() bool { return pull() == "Fresh" })
}
