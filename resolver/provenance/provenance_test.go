// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"slices"
	"testing"
)

func TestKnown(t *testing.T) {
	for _, test := range []struct {
		p    Provenance
		want bool
	}{
		{Provenance{}, false},
		{Provenance{Hosts: []string{}}, false},
		{Provenance{Hosts: []string{"a"}}, true},
		{Provenance{Reference: "a/x:1"}, true},
	} {
		if got := test.p.Known(); got != test.want {
			t.Errorf("%+v: got %v", test.p, got)
		}
	}
}

func TestAdd(t *testing.T) {
	for _, test := range []struct{ p, later, want Provenance }{
		{Provenance{}, Provenance{}, Provenance{}},
		{Provenance{"a/x:1", []string{"a"}}, Provenance{}, Provenance{"a/x:1", []string{"a"}}},
		{Provenance{}, Provenance{"b/x:1", []string{"b"}}, Provenance{"b/x:1", []string{"b"}}},
		{Provenance{"a/x:1", []string{"a"}}, Provenance{"b/x:1", []string{"b", "a"}}, Provenance{"b/x:1", []string{"a", "b"}}},
		{Provenance{"a/x:1", []string{"a"}}, Provenance{"", []string{"b"}}, Provenance{"a/x:1", []string{"a", "b"}}},
	} {
		// With room to append, nothing of the old list may change.
		p := Provenance{test.p.Reference, append(make([]string, 0, 8), test.p.Hosts...)}
		got := p.Add(test.later)
		if got.Reference != test.want.Reference || !slices.Equal(got.Hosts, test.want.Hosts) {
			t.Errorf("%+v and %+v: got %+v", test.p, test.later, got)
		}
		if room := p.Hosts[:cap(p.Hosts)]; len(room) > 0 && room[len(p.Hosts)] != "" {
			t.Errorf("%+v: Add wrote to the list that it was given", test.p)
		}
	}
}

func TestInOrder(t *testing.T) {
	hosts := []string{"x", "d", "a", "y", "b"}
	p := Provenance{"a/x:1", hosts}
	got := p.InOrder([]string{"a", "b", "c", "d"})
	if want := []string{"a", "b", "d", "x", "y"}; !slices.Equal(got.Hosts, want) || got.Reference != "a/x:1" {
		t.Errorf("got %+v, want hosts %v", got, want)
	}
	if !slices.Equal(hosts, []string{"x", "d", "a", "y", "b"}) {
		t.Errorf("the given list is %v now", hosts)
	}
	if got := p.InOrder(nil); !slices.Equal(got.Hosts, hosts) {
		t.Errorf("without an order: %v", got.Hosts)
	}
}
