// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

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
		{"hosts from before were too many", "a/x:1", []string{"a"}, store.State{ContentSources: []string{"b"}, MoreSources: 7}, store.State{PullSource: "a/x:1"}},
		{"the path is not known", "", []string{"a"}, store.State{}, store.State{ContentSources: []string{"a"}}},
	} {
		got := applyTo(tc.before, provenance.Provenance{Reference: tc.reference, Hosts: tc.hosts})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, diff)
		}
	}
}

// A comparison takes away the hosts that the image's records named before it, and no others.
func TestWithComparedSince(t *testing.T) {
	from := func(more int, hosts ...string) store.State {
		return store.State{PullSource: hosts[0] + "/x:1", ContentSources: hosts, MoreSources: more, UnknownSources: true}
	}
	compared := func(more int, hosts ...string) store.State {
		return store.State{PullSource: "a/x:1", ContentSources: hosts, MoreSources: more, Compared: true}
	}
	for what, tc := range map[string]struct {
		before []store.State
		now    store.State
		want   store.State
	}{
		"nothing was known":         {nil, store.State{}, compared(0)},
		"nothing has changed":       {[]store.State{{}, from(0, "b", "c")}, from(0, "b", "c"), compared(0)},
		"each record names one":     {[]store.State{from(0, "b"), from(0, "c")}, from(0, "b", "c"), compared(0)},
		"a pull meanwhile":          {[]store.State{from(0, "b")}, from(0, "b", "c"), compared(0, "a", "c")},
		"it has set the reference":  {[]store.State{from(0, "b")}, store.State{PullSource: "c/x:2"}, compared(0, "a", "c")},
		"it has the image from a":   {[]store.State{from(0, "b")}, store.State{PullSource: "a/x:2"}, compared(0)},
		"more than are named":       {[]store.State{from(7, "b")}, from(7, "b"), compared(0)},
		"of these another, as well": {[]store.State{from(7, "b")}, from(8, "b"), compared(1, "a")},
	} {
		got := WithComparedSince(tc.before, tc.now, provenance.Provenance{Reference: "a/x:1", Hosts: []string{"a"}})
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Content whose hosts are too many for a label keeps those that have room.
func TestTooManySourcesForALabel(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer", "another")
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("host-%03d.%s.test", i, strings.Repeat("x", 50)))
	}
	source := &manyHostsSource{fakeSource: &fakeSource{fakeImage: img, host: "a"}, hosts: many}
	if err := n.plan(source, store.State{}); err != nil {
		t.Fatalf("the pull ended with %v", err)
	}
	info, err := n.contents.Info(n.ctx, img.layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	for what, labels := range map[string]map[string]string{"the layer": info.Labels, "the record": n.labels(appName)} {
		p := decodeLabels(labels)
		if len(p.Hosts) < 7 || p.More < 200 || len(p.Hosts)+p.More < len(many) {
			t.Errorf("%s names %d hosts and %d more, of %d", what, len(p.Hosts), p.More, len(many))
		}
	}
	if got := own(n.labels(appName))["unknown-sources"]; got != "true" {
		t.Errorf("unknown-sources is %q", got)
	}
}

// manyHostsSource has every host serve a part of everything.
type manyHostsSource struct {
	*fakeSource
	hosts []string
}

func (s *manyHostsSource) ServedBy(d digest.Digest) provenance.Provenance {
	p := s.fakeSource.ServedBy(d)
	p.Hosts = append(p.Hosts, s.hosts...)
	return p
}

// Hosts that two records of an image leave out are mostly the same.
func TestMoreHostsOfAPullMeanwhile(t *testing.T) {
	before := store.State{PullSource: "b/x:1", ContentSources: []string{"b"}, MoreSources: 7}
	now := before
	now.MoreSources = 8
	got := WithComparedSince([]store.State{before, before}, now, provenance.Provenance{Reference: "a/x:1", Hosts: []string{"a"}})
	if got.MoreSources != 1 {
		t.Errorf("%+v", got)
	}
}
