// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestFallback follows an image through an outage: marks, warning, recovery.
func TestFallback(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	dgst := n.Push("app:1", nodetest.Image(1))
	ref, canonical := nodetest.Named("app:1"), nodetest.Named("app@"+dgst.String())
	id := n.MustPull(ref)

	before := time.Now().Add(-time.Second)
	n.Registry.Refuse()
	mark := n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref), id)
	got := n.Decision(mark, ref)
	nodetest.Want(t, "level", got.Level, "warning")
	nodetest.Want(t, "class", got.Class, "unreachable")
	if got.LastChecked == "" {
		t.Error("the warning does not tell the age")
	}
	nodetest.Eventually(t, "the record is marked", func() bool { return n.Labels(ref)["stale-since"] != "" })
	labels := n.Labels(ref)
	nodetest.Want(t, "stale-reason", labels["stale-reason"], "unreachable")
	since, err := time.Parse(time.RFC3339, labels["stale-since"])
	if err != nil || since.Before(before.Truncate(time.Second)) || since.After(time.Now().Add(time.Second)) || since.Location() != time.UTC {
		t.Errorf("stale-since is %s, want the time of the fallback in UTC (%v)", labels["stale-since"], err)
	}
	nodetest.Want(t, "verified-digest", labels["verified-digest"], dgst.String())
	nodetest.Eventually(t, "the record by digest is marked", func() bool { return n.Labels(canonical)["stale-reason"] != "" })
	n.WantRunnable(ref)

	n.Restore()
	n.Registry.Status(resolvertest.All, 503)
	n.MustPull(ref)
	nodetest.Eventually(t, "the reason is the newest", func() bool { return n.Labels(ref)["stale-reason"] == "unavailable" })
	nodetest.Want(t, "stale-since", n.Labels(ref)["stale-since"], labels["stale-since"])

	// A registry that has failed for some time is left alone for a while.
	n.Restore()
	nodetest.Eventually(t, "the registry is asked again", func() bool {
		mark := n.Mark()
		n.MustPull(ref)
		return n.Decision(mark, ref).Outcome == "Unchanged"
	})
	for _, name := range []string{ref, canonical} {
		nodetest.Eventually(t, "the marks are gone from "+name, func() bool {
			l := n.Labels(name)
			return l["stale-since"] == "" && l["stale-reason"] == ""
		})
	}
}

// TestMaxStale holds that a fallback is only as old as max_stale says, since
// the last check and not since the pull.
func TestMaxStale(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `max_stale = "1h"`))
	dgst := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	n.Push("writes:1", nodetest.Image(2))
	n.WaitForWrites(nodetest.Named("writes:1"))
	n.Registry.Refuse()
	verified := func(age time.Duration) map[string]string {
		return map[string]string{"verified-at": time.Now().Add(-age).UTC().Format(time.RFC3339Nano)}
	}
	tests := []struct {
		name   string
		labels map[string]string
		opts   []node.PullOption
		works  bool
		word   string // in the error
	}{
		{"young enough", verified(50 * time.Minute), nil, true, ""},
		{"too old", verified(70 * time.Minute), nil, false, "was last checked 1h10m"},
		{"a hint shortens it", verified(50 * time.Minute), []node.PullOption{node.Hint("max-stale", "40m")}, false, "max_stale is 40m"},
		{"no bound", verified(70 * time.Minute), []node.PullOption{node.Hint("max-stale", "0s")}, true, ""},
		{"from the future", verified(-2 * time.Hour), nil, false, "lies in the future"},
		{"not a time", map[string]string{"verified-at": "yesterday"}, nil, false, "was never checked"},
		{"of another digest", map[string]string{
			"verified-at": verified(0)["verified-at"], "verified-digest": "sha256:" + dgst.Encoded()[:62] + "00",
		}, nil, false, "was never checked"},
		{"never checked", map[string]string{"verified-at": "", "verified-digest": ""}, nil, false, "was never checked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := n.In(t)
			n.SetLabels(ref, tt.labels)
			_, err := n.Pull(ref, tt.opts...)
			nodetest.Want(t, "fallback works", err == nil, tt.works)
			if err != nil {
				nodetest.WantWords(t, err, "max_stale", "unreachable", n.Registry.Host(), tt.word)
				nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
			}
		})
	}
}
