// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"fmt"
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
		{Provenance{"a/x:1", []string{"a"}, 0}, Provenance{}, Provenance{"a/x:1", []string{"a"}, 0}},
		{Provenance{}, Provenance{"b/x:1", []string{"b"}, 0}, Provenance{"b/x:1", []string{"b"}, 0}},
		{Provenance{"a/x:1", []string{"a"}, 0}, Provenance{"b/x:1", []string{"b", "a"}, 0}, Provenance{"b/x:1", []string{"a", "b"}, 0}},
		{Provenance{"a/x:1", []string{"a"}, 0}, Provenance{"", []string{"b"}, 0}, Provenance{"a/x:1", []string{"a", "b"}, 0}},
		{Provenance{"a/x:1", nil, 2}, Provenance{"", []string{"b"}, 3}, Provenance{"a/x:1", []string{"b"}, 3}},
	} {
		// With room to append, nothing of the old list may change.
		p := Provenance{test.p.Reference, append(make([]string, 0, 8), test.p.Hosts...), test.p.More}
		got := p.Add(test.later)
		if got.Reference != test.want.Reference || !slices.Equal(got.Hosts, test.want.Hosts) || got.More != test.want.More {
			t.Errorf("%+v and %+v: got %+v", test.p, test.later, got)
		}
		if room := p.Hosts[:cap(p.Hosts)]; len(room) > 0 && room[len(p.Hosts)] != "" {
			t.Errorf("%+v: Add wrote to the list that it was given", test.p)
		}
	}
}

func TestInOrder(t *testing.T) {
	hosts := []string{"x", "d", "a", "y", "b"}
	p := Provenance{"a/x:1", hosts, 0}
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

// The hosts of many layers are as many as anybody may want to know, and it says that there are more.
func TestHostsAreBounded(t *testing.T) {
	var all Provenance
	for i := range 200 {
		var p Provenance
		for j := range 16 {
			p.Hosts = append(p.Hosts, fmt.Sprintf("h%d.test", i*16+j))
		}
		all = all.Add(p).Add(Provenance{Hosts: []string{"h0.test"}})
	}
	if len(all.Hosts) != maxHosts || all.More == 0 || all.Hosts[0] != "h0.test" {
		t.Errorf("%d hosts and %d more", len(all.Hosts), all.More)
	}
}
