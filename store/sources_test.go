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
	if n := len(s.ContentSources); n < 60 || !slices.Equal(s.ContentSources, hosts[:n]) || n+s.MoreSources != len(hosts) {
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

// A shorter list is as long as it may be, and tells how many hosts it lacks.
func TestShortenSources(t *testing.T) {
	hosts := []string{"a.test", "b.test", "c.test"}
	for _, tc := range []struct {
		more, limit int
		want        string
	}{
		{0, 20, "a.test,b.test,c.test"},
		{0, 19, "a.test,+2 more"},
		{1, 28, "a.test,b.test,c.test,+1 more"},
		{1, 27, "a.test,b.test,+2 more"},
		{7, 14, "a.test,+9 more"},
		{7, 13, "+10 more"},
		{0, 0, "+3 more"},
	} {
		if got := ShortenSources(hosts, tc.more, tc.limit); got != tc.want {
			t.Errorf("%d more, %d bytes: %q, want %q", tc.more, tc.limit, got, tc.want)
		}
	}
	for more, want := range []string{"", "+1 more"} {
		if got := ShortenSources(nil, more, 100); got != want {
			t.Errorf("no hosts and %d more: %q, want %q", more, got, want)
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
	if got, want := EncodeSources([]string{strings.Repeat("x", maxLabel)}, 1), "+2 more"; got != want {
		t.Errorf("a host that is too long: %q, want %q", got, want)
	}
}
