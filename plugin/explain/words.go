// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
)

// noFallback says why the cached image is none for want of a proof, or of its bytes, where
// that is why; else "".
func noFallback(x engine.Explanation) string {
	if x.Local.Remote && (x.Local.Grant.Given() || x.Local.Grant.InNeed) && x.Directives.Policy == policy.IfDigestChanged {
		return ", since " + engine.RemoteText
	}
	if x.Local.Grant.Kind != engine.GrantNone || !x.Local.Usable() || x.Directives.Policy != policy.IfDigestChanged {
		return ""
	}
	return ", since " + noProof(x)
}

func noProof(x engine.Explanation) string {
	whose := "these credentials"
	if x.Directives.AccessIdentity == policy.Namespace {
		whose = "pods of this namespace"
	}
	return "nothing proves that " + whose + " may have the cached image"
}

// changes says what follows from another digest than the node's.
func changes(f engine.Forecast) string {
	longest, bounded := f.Changed.Within.Bound()
	switch {
	case !bounded:
		return follows(f.Changed)
	case longest == 0:
		return follows(f.Overdue) + ", and the other is pulled in the background"
	}
	return fmt.Sprintf("%s, and after %s %s", follows(f.Changed), f.Changed.Within, follows(f.Overdue))
}

func follows(a engine.Action) string {
	switch a.Do {
	case engine.Reuse:
		return "the cached image is used"
	case engine.Reverify:
		return "it is fetched again and compared"
	case engine.Fail:
		return fmt.Sprintf("the pod fails (%s)", a.Reason)
	}
	return "the image is pulled"
}

// asked names the hosts that would be asked, or probed where they are in trouble.
func asked(states []resolver.HostState) (names []string) {
	for _, h := range states {
		switch {
		case h.Asked && h.Trouble != nil && h.Trouble.Open:
			names = append(names, fmt.Sprintf("%s (in trouble: %s)", h.Host, h.Trouble.Class))
		case h.Asked:
			names = append(names, h.Host)
		}
	}
	return slices.Compact(names) // a hosts.toml may name the registry twice
}

// list joins items: "a", "a or b", "a, b or c".
func list(items []string) string {
	last := len(items) - 1
	if last < 1 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:last], ", ") + " or " + items[last]
}

// short is the beginning of a digest.
func short(d digest.Digest) string {
	if d.Validate() != nil {
		return "a digest"
	}
	return d.Algorithm().String() + ":" + d.Encoded()[:8] + "…"
}
