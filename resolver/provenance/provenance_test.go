// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKnown(t *testing.T) {
	for _, tc := range []struct {
		of   Provenance
		want bool
	}{
		{Provenance{}, false},
		{Provenance{Hosts: []string{}}, false},
		{Provenance{Reference: "a/app:1"}, true},
		{Provenance{Hosts: []string{"a"}}, true},
	} {
		if got := tc.of.Known(); got != tc.want {
			t.Errorf("%+v: known is %v, want %v", tc.of, got, tc.want)
		}
	}
}

func TestAdd(t *testing.T) {
	for _, tc := range []struct {
		what           string
		p, later, want Provenance
	}{
		{"nothing to nothing", Provenance{}, Provenance{}, Provenance{}},
		{"to nothing", Provenance{}, Provenance{"a/x:1", []string{"a"}}, Provenance{"a/x:1", []string{"a"}}},
		{"nothing", Provenance{"a/x:1", []string{"a"}}, Provenance{}, Provenance{"a/x:1", []string{"a"}}},
		{"another host", Provenance{"a/x:1", []string{"a"}}, Provenance{"b/x:1", []string{"b"}}, Provenance{"b/x:1", []string{"a", "b"}}},
		{"the same host", Provenance{"a/x:1", []string{"a", "b"}}, Provenance{"", []string{"b", "a"}}, Provenance{"a/x:1", []string{"a", "b"}}},
		{"a host twice", Provenance{}, Provenance{"", []string{"b", "b"}}, Provenance{"", []string{"b"}}},
	} {
		if diff := cmp.Diff(tc.want, tc.p.Add(tc.later)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, diff)
		}
	}
}

func TestInOrder(t *testing.T) {
	for _, tc := range []struct {
		what               string
		hosts, order, want []string
	}{
		{"no hosts", nil, []string{"a"}, nil},
		{"no order", []string{"b", "a"}, nil, []string{"b", "a"}},
		{"all in the order", []string{"a", "b"}, []string{"b", "a"}, []string{"b", "a"}},
		{"others follow as they are", []string{"d", "a", "c", "b"}, []string{"b", "a"}, []string{"b", "a", "d", "c"}},
	} {
		got := Provenance{Reference: "a/x:1", Hosts: tc.hosts}.InOrder(tc.order)
		if diff := cmp.Diff(Provenance{Reference: "a/x:1", Hosts: tc.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, diff)
		}
	}
}

// Values are shared between goroutines: no method writes to the list of
// another value, even where it has room.
func TestMethodsLeaveTheirValuesAlone(t *testing.T) {
	hosts := append(make([]string, 0, 4), "b", "a")
	p := Provenance{Hosts: hosts}
	p.Add(Provenance{Hosts: []string{"c"}})
	p.InOrder([]string{"a", "b"})
	if full := hosts[:3]; !slices.Equal(full, []string{"b", "a", ""}) {
		t.Errorf("the list became %v", full)
	}
}
