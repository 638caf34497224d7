// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestDisabled holds that without the section, or with enabled = false, the
// daemon is stock containerd: hints mean nothing, no label is written, a
// failing registry fails the pull.
func TestDisabled(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]option{
		"no section":      onlySection(),
		"enabled = false": onlySection("enabled = false", `default_policy = "Never"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, opt)
			n.rules("a.toml", "this stops nothing")
			n.push("app:1", image(1))
			ref := named("app:1")
			n.mustPull(ref, hint("policy", "Never", "nonsense", "x"))
			second := n.push("app:1", image(2))
			n.mustPull(ref, hint("policy", "IfNotPresent"))
			want(t, "target", n.target(ref), second)
			img, _ := n.record(ref)
			want(t, "labels", strings.Join(slices.Sorted(maps.Keys(img.Labels)), " "), "io.cri-containerd.image")
			_, verbose := n.imageStatus(ref).GetInfo()["pullwarden"]
			want(t, "verbose status has a part of its own", verbose, false)

			n.r.Refuse()
			err := n.mustFail(ref, nil, hint("policy", "IfDigestChanged"))
			want(t, "RegistryUnavailable", registryUnavailable(err), false)
			if lines := n.logged(0, "pullwarden: "); len(lines) > 0 {
				t.Errorf("logged: %s", lines)
			}
		})
	}
}

// TestSwitchedOn holds that images from before pullwarden, which have no
// labels, are checked and used like any other, and that switching it off
// leaves them usable.
func TestSwitchedOn(t *testing.T) {
	t.Parallel()
	n := newNode(t, onlySection())
	dgst := n.push("app:1", image(1))
	ref := named("app:1")
	id := n.mustPull(ref)

	n.restart(onlySection("enabled = true"))
	mark := n.mark()
	want(t, "image ID", n.mustPull(ref, hint("policy", "IfDigestChanged")), id)
	want(t, "outcome", n.decision(mark, ref).outcome, "Unchanged")
	eventually(t, "the check is recorded", func() bool { return n.labels(ref)["verified-digest"] == dgst.String() })
	n.r.Status(resolvertest.All, 503)
	want(t, "image ID from the cache", n.mustPull(ref, hint("policy", "IfDigestChanged", "verify-timeout", "500ms")), id)

	n.restore()
	n.restart(onlySection())
	want(t, "image ID without pullwarden", n.mustPull(ref), id)
}
