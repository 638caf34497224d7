// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// allowing is a node with a mirror, and a rule that allows sources.
type allowing struct{ *mirrored }

func newAllowing(t *testing.T) allowing {
	t.Helper()
	a := allowing{newMirrored(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1m"`))}
	a.both("app:1", nodetest.Image(1))
	return a
}

// allow writes the rule.
func (a allowing) allow(hosts ...string) {
	a.T.Helper()
	list := ""
	for _, h := range hosts {
		list += fmt.Sprintf("%q, ", h)
	}
	a.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nallowed_sources = [%s]\n", list))
}

// outcome pulls, and returns what came out. The registries forget what they
// were asked before.
func (a allowing) outcome(opts ...node.PullOption) (outcome, reason string) {
	a.T.Helper()
	a.mirror.Forget()
	a.Registry.Forget()
	mark := a.Mark()
	_, _ = a.Pull(nodetest.Named("app:1"), opts...)
	d := a.Decision(mark, nodetest.Named("app:1"))
	return d.Outcome, d.Reason
}

// source is the image's.
func (a allowing) source() string { return a.Labels(nodetest.Named("app:1"))["pull-source"] }

// TestAllowedSources follows an image from a mirror under a rule that comes to
// allow other hosts alone.
func TestAllowedSources(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	a.MustPull(ref)
	nodetest.Want(t, "source at first", a.source(), a.mirror.Host()+"/app:1")

	// Nobody is asked whom the rule does not name.
	a.allow("elsewhere.test:5000")
	err := a.MustFail(ref, []string{ref, "rule 10.toml#1", "elsewhere.test:5000", a.mirror.Host(), a.Registry.Host()})
	nodetest.Want(t, "the kubelet's reason", nodetest.RegistryUnavailable(err), false)
	got, reason := a.outcome()
	nodetest.Want(t, "outcome without a host", got, "Failed")
	nodetest.Want(t, "reason without a host", reason, "source")
	nodetest.Want(t, "requests", a.mirror.Count(resolvertest.NoProbe)+a.Registry.Count(resolvertest.NoProbe), 0)

	// An image that came from elsewhere is not reused, by any policy.
	a.allow(a.Registry.Host())
	a.Registry.Refuse()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		got, _ := a.outcome(node.Hint("policy", policy))
		nodetest.Want(t, "outcome under "+policy, got, "Failed")
	}
	nodetest.Want(t, "requests to the mirror", a.mirror.Count(resolvertest.NoProbe), 0)
	nodetest.Want(t, "source", a.source(), a.mirror.Host()+"/app:1")

	// The error of a host that is allowed says who else was left out, and why.
	err = a.MustFail(ref, []string{": unreachable under ", "host " + a.Registry.Host() + " after ", "allowed_sources=" + a.Registry.Host() + "(rule 10.toml#1) leaves out " + a.mirror.Host()})
	nodetest.Want(t, "the kubelet's reason", nodetest.RegistryUnavailable(err), true)

	// Its bytes are taken again from a host that is allowed.
	a.Restore()
	got, reason = a.outcome(node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "outcome", got, "Pulled")
	nodetest.Want(t, "reason", reason, "source")
	nodetest.Want(t, "requests to the mirror", a.mirror.Count(resolvertest.NoProbe), 0)
	if blobs := a.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)); blobs < 2 {
		t.Errorf("%d blobs were taken again, want config and layer", blobs)
	}
	nodetest.Eventually(t, "the source is the origin", func() bool { return a.source() == a.Registry.Host()+"/app:1" })
	a.WantRunnable(ref)
	a.wantOrdinary()
}

// wantOrdinary holds that an image from a host that is allowed is as any other.
func (a allowing) wantOrdinary() {
	t := a.T
	t.Helper()
	got, _ := a.outcome()
	nodetest.Want(t, "outcome of a check", got, "Unchanged")
	a.Registry.Refuse()
	got, _ = a.outcome()
	nodetest.Want(t, "outcome of a fallback", got, "UsedCached")
	a.Restore()

	// Bytes that differ are no image.
	a.allow(a.mirror.Host())
	undo := a.mirror.Corrupt(resolvertest.Blobs)
	got, _ = a.outcome()
	nodetest.Want(t, "outcome with wrong bytes", got, "Failed")
	nodetest.Want(t, "source with wrong bytes", a.source(), a.Registry.Host()+"/app:1")
	undo()

	// Other images are not meant.
	a.Push("free:1", nodetest.Image(2))
	a.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/app\"]\nallowed_sources = [\"elsewhere.test\"]\n")
	a.MustPull(nodetest.Named("free:1"))
}
