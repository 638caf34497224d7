// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/store"
)

// A caller without credentials proves access for everybody, where the node was let in for nothing:
// by what hosts.toml has it show, or by credentials of CRI's configuration, in the check or the pull.
func TestNodeProvesNothing(t *testing.T) {
	for what, tc := range map[string]struct {
		node *node
		want bool
	}{
		"asks for nothing":                          {&node{anonymous: true}, true},
		"is shown the node's header":                {&node{byNode: true}, false},
		"is shown it in the pull alone":             {&node{anonymous: true, nodeGuarded: true}, false},
		"takes the node's credentials":              {&node{}, false},
		"takes the node's credentials for the pull": {&node{anonymous: true, guarded: true}, false},
	} {
		for _, cached := range []bool{false, true} { // a manifest is read of what is cached
			n := tc.node
			n.remote, n.record, n.proved = first, nil, nil
			if cached {
				n.record = restricted(now)
			}
			if _, err := n.engine("# none").Ensure(t.Context(), n.from(teamA, store.Anonymous)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			_, proved := n.record.Access[store.Anonymous]
			if proved = proved || slices.Contains(n.proved, store.Anonymous); proved != tc.want {
				t.Errorf("a host that %s, cached %v: proved %v", what, cached, proved)
			}
		}
	}
}
