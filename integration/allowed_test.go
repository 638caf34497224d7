// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAllowedSources follows an image from a mirror under a rule that comes to
// allow other hosts alone.
func TestAllowedSources(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := newNode(t, section(changed, `verify_timeout = "2s"`))
	n.hostsTOML("registry.test", n.server(n.r)+n.mirror(mirror, ""))
	for _, r := range []*resolvertest.Registry{mirror, n.r} {
		n.daemon.push(r, "app:1", image(1))
	}
	ref := named("app:1")
	allow := func(hosts ...string) {
		t.Helper()
		list := ""
		for _, h := range hosts {
			list += fmt.Sprintf("%q, ", h)
		}
		n.rules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nallowed_sources = [%s]\n", list))
	}
	outcome := func(opts ...pullOption) (string, string) {
		t.Helper()
		mirror.Forget()
		n.r.Forget()
		mark := n.mark()
		_, _ = n.pull(ref, opts...)
		d := n.decision(mark, ref)
		return d.outcome, d.reason
	}
	source := func() string { return n.labels(ref)["pull-source"] }

	n.mustPull(ref)
	want(t, "source at first", source(), mirror.Host()+"/app:1")

	// Nobody is asked whom the rule does not name.
	allow("elsewhere.test:5000")
	err := n.mustFail(ref, []string{ref, "rule 10.toml#1", "elsewhere.test:5000", mirror.Host(), n.r.Host()})
	want(t, "the kubelet's reason", registryUnavailable(err), false)
	got, reason := outcome()
	want(t, "outcome without a host", got, "Failed")
	want(t, "reason without a host", reason, "source")
	want(t, "requests", mirror.Count(nil)+n.r.Count(nil), 0)

	// An image that came from elsewhere is not reused, by any policy.
	allow(n.r.Host())
	n.r.Refuse()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		got, _ := outcome(hint("policy", policy))
		want(t, "outcome under "+policy, got, "Failed")
	}
	want(t, "requests to the mirror", mirror.Count(nil), 0)
	want(t, "source", source(), mirror.Host()+"/app:1")

	// Its bytes are taken again from a host that is allowed.
	n.restore()
	got, reason = outcome(hint("policy", "IfNotPresent"))
	want(t, "outcome", got, "Pulled")
	want(t, "reason", reason, "source")
	want(t, "requests to the mirror", mirror.Count(nil), 0)
	if blobs := n.r.Count(resolvertest.Of("GET", resolvertest.Blobs)); blobs < 2 {
		t.Errorf("%d blobs were taken again, want config and layer", blobs)
	}
	eventually(t, "the source is the origin", func() bool { return source() == n.r.Host()+"/app:1" })
	isRunnable(n.daemon, ref)

	// From then on it is as any other.
	got, _ = outcome()
	want(t, "outcome of a check", got, "Unchanged")
	n.r.Refuse()
	got, _ = outcome()
	want(t, "outcome of a fallback", got, "UsedCached")
	n.restore()

	// Bytes that differ are no image.
	allow(mirror.Host())
	undo := mirror.Corrupt(resolvertest.Blobs)
	got, _ = outcome()
	want(t, "outcome with wrong bytes", got, "Failed")
	want(t, "source with wrong bytes", source(), n.r.Host()+"/app:1")
	undo()

	// Other images are not meant.
	n.daemon.push(n.r, "free:1", image(2))
	n.rules("10.toml", "[[rule]]\nimages = [\"registry.test/app\"]\nallowed_sources = [\"elsewhere.test\"]\n")
	n.mustPull(named("free:1"))
}
