// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"
)

// TestLabels follows the labels of an image through pulls, re-pulls, checks
// and restarts.
func TestLabels(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ref := named("app:1")
	first := n.push("app:1", image(1))
	began := time.Now().Truncate(time.Second)
	n.mustPull(ref)

	check := func(what, dgst string) map[string]string {
		t.Helper()
		for _, name := range []string{ref, named("app@" + dgst)} {
			eventually(t, what+": "+name+" is verified", func() bool {
				l := n.labels(name)
				return l["verified-digest"] == dgst && l["verified-at"] != "" && l["verified-by"] == n.r.Host() &&
					l["pull-source"] == n.r.Host()+"/app:1"
			})
			l := n.labels(name)
			for _, key := range []string{"verified-at", "pulled-at"} {
				at, err := time.Parse(time.RFC3339, l[key])
				if err != nil || at.Location() != time.UTC || at.Before(began) || at.After(time.Now().Add(time.Second)) {
					t.Errorf("%s: %s of %s is %q", what, key, name, l[key])
				}
			}
		}
		return n.labels(ref)
	}
	pulled := check("first pull", first.String())

	n.mustPull(ref)
	checked := check("a check", first.String())
	want(t, "pulled-at after a check", checked["pulled-at"], pulled["pulled-at"])

	n.restart()
	// The last check may have been written since it was looked at.
	if after := n.labels(ref)["verified-at"]; after < checked["verified-at"] {
		t.Errorf("verified-at is %s after a restart and was %s before", after, checked["verified-at"])
	}
	check("a restart", first.String())

	second := n.push("app:1", image(2))
	n.mustPull(ref)
	check("a change", second.String())

	// A re-pull by stock containerd rewrites the record: nothing is left that
	// could be untrue.
	n.remove(ref)
	if _, ok := n.record(ref); ok {
		t.Error("the labels did not go with the image")
	}
	n.mustPull(ref)
	check("a pull after removal", second.String())
}

// TestUnreadableLabels holds that a label that cannot be read means "not
// checked", and does no other harm.
func TestUnreadableLabels(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`max_age = "1h"`))
	dgst := n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	outcome := func() string {
		mark := n.mark()
		n.mustPull(ref)
		return n.decision(mark, ref).outcome
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
			n.setLabels(ref, labels)
			want(t, "outcome", outcome(), "Unchanged")
			eventually(t, "the check is recorded again", func() bool {
				l := n.labels(ref)
				at, err := time.Parse(time.RFC3339, l["verified-at"])
				return err == nil && time.Since(at).Abs() < time.Minute && l["verified-digest"] == dgst.String()
			})
			want(t, "outcome of the next", outcome(), "Fresh")
		})
	}
}

// TestMaxAge holds that a young check counts without a request, also after a
// restart, and an old one does not.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`max_age = "1h"`))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	pull := func(opts ...pullOption) (outcome string) {
		t.Helper()
		mark := n.mark()
		n.r.Forget()
		n.mustPull(ref, opts...)
		return n.decision(mark, ref).outcome
	}
	eventually(t, "the check counts", func() bool { return pull() == "Fresh" })
	want(t, "requests", n.requests(), "")
	n.restart()
	want(t, "outcome after a restart", pull(), "Fresh")
	want(t, "outcome for who wants it younger", pull(hint("max-age", "0s")), "Unchanged")
	n.setLabels(ref, map[string]string{"verified-at": time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)})
	want(t, "outcome for an old check", pull(), "Unchanged")
	eventually(t, "the check counts again", func() bool { return pull() == "Fresh" })
}
