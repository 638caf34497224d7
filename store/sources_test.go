// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/labels"
)

// manySources returns hosts that have no room in one label.
func manySources() (hosts []string) {
	for i := range 200 {
		hosts = append(hosts, fmt.Sprintf("host-%03d.%s.test", i, strings.Repeat("x", 50)))
	}
	return hosts
}

// A list that is too long for a label says how many hosts it lacks, and none of
// its image counts as known.
func TestMoreSourcesThanALabelHolds(t *testing.T) {
	hosts := manySources()
	written := State{PullSource: hosts[0] + "/app:1", ContentSources: hosts}.Labels(name, one.Digest)
	for label, value := range written {
		if err := labels.Validate(label, value); err != nil {
			t.Error(err)
		}
	}
	s := Decode(name, one.Digest, written)
	if n := len(s.ContentSources); n < 7 || !slices.Equal(s.ContentSources, hosts[:n]) || n+s.MoreSources != len(hosts) {
		t.Errorf("%d hosts and %d more are read, %d were written", n, s.MoreSources, len(hosts))
	}
	if !s.UnknownSources {
		t.Error("hosts are left out, and all count as known")
	}
	again := s.Labels(name, one.Digest)
	if got, want := again[LabelContentSources], written[LabelContentSources]; got != want {
		t.Errorf("written again it is %q, was %q", got, want)
	}
	s.ContentSources = append(s.ContentSources, "late.test", "later.test")
	if got := Decode(name, one.Digest, s.Labels(name, one.Digest)); len(got.ContentSources)+got.MoreSources != len(hosts)+2 {
		t.Errorf("two hosts later there are %d and %d more", len(got.ContentSources), got.MoreSources)
	}
}

// A list is as long as a label has room for, and tells how many hosts it lacks. Eight hosts
// with long names have room.
func TestEncodeSources(t *testing.T) {
	host := func(name string, length int) string { return name + strings.Repeat("x", length-len(name)) }
	var eight []string
	for i := range 8 {
		eight = append(eight, host(fmt.Sprint(i), 63))
	}
	for _, tc := range []struct {
		hosts []string
		more  int
		want  string
	}{
		{nil, 0, ""},
		{nil, 1, "+1 more"},
		{eight, 0, strings.Join(eight, ",")},
		{[]string{"a", host("b", 500), "cccccccc"}, 0, "a," + host("b", 500) + ",cccccccc"},
		{[]string{"a", host("b", 500), "ccccccccc", "d"}, 0, "a," + host("b", 500) + ",+2 more"},
		{[]string{"a", host("b", 502)}, 1, "a," + host("b", 502) + ",+1 more"},
		{[]string{"a", host("b", 502)}, 10, "a,+11 more"},
		{[]string{"a", host("b", 512), "c"}, 7, "a,+9 more"},
		{[]string{host("a", 513)}, 1, "+2 more"},
	} {
		if got := EncodeSources(tc.hosts, tc.more); got != tc.want || len(got) > 512 {
			t.Errorf("%d bytes: %q, want %q", len(got), got, tc.want)
		}
	}
}

func TestDecodeSources(t *testing.T) {
	for value, want := range map[string]string{
		"":                  "[] 0",
		"a.test":            "[a.test] 0",
		"a.test,b.test":     "[a.test b.test] 0",
		"a.test,+3 more":    "[a.test] 3",
		"+3 more":           "[] 3",
		"a.test,+":          "[a.test] 1",
		"a.test,+0 more":    "[a.test] 1",
		"a.test,+-3 more":   "[a.test] 1",
		"+2 more,+5 more,a": "[a] 5",
	} {
		hosts, more := DecodeSources(value)
		if got := fmt.Sprint(hosts, more); got != want {
			t.Errorf("%q is read as %s, want %s", value, got, want)
		}
	}
}
