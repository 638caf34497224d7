// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

func TestApplyTo(t *testing.T) {
	for _, tc := range []struct {
		what      string
		reference string
		hosts     []string
		before    store.State
		want      store.State
	}{
		{"nothing known", "", nil, store.State{PullSource: "a/x:1", ContentSources: []string{"a", "b"}}, store.State{PullSource: "a/x:1", ContentSources: []string{"a", "b"}}},
		{"one host", "a/x:1", []string{"a"}, store.State{PullSource: "b/x:1", ContentSources: []string{"b", "c"}}, store.State{PullSource: "a/x:1"}},
		{"several hosts", "a/x:1", []string{"a", "b"}, store.State{}, store.State{PullSource: "a/x:1", ContentSources: []string{"a", "b"}}},
		{"manifest of unknown source", "", []string{"b"}, store.State{}, store.State{ContentSources: []string{"b"}}},
		{"manifest from before", "", []string{"b"}, store.State{PullSource: "a:5000/x:1"}, store.State{PullSource: "a:5000/x:1", ContentSources: []string{"a:5000", "b"}}},
		{"the path is not known", "", []string{"a"}, store.State{}, store.State{ContentSources: []string{"a"}}},
	} {
		got := applyTo(tc.before, provenance.Provenance{Reference: tc.reference, Hosts: tc.hosts})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, diff)
		}
	}
}
