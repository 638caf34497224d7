// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

var (
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	target = digest.FromString("one")
)

func record(name string, labels map[string]string) images.Image {
	return images.Image{Name: name, Target: ocispec.Descriptor{Digest: target}, Labels: labels}
}

func checked(by store.Fingerprint) store.State {
	return store.State{
		PullSource: "mirror.test/app:1", Verified: store.Verified{Digest: target, At: noon, By: "mirror.test"},
		Access: map[store.Fingerprint]store.Proof{by: {At: noon, By: "mirror.test"}},
	}
}

func references(r Report) string {
	var names []string
	for i := range r.Images {
		names = append(names, r.Images[i].Reference)
	}
	return strings.Join(names, " ")
}

// A tag has one row, with the proofs of its repository@digest; an image ID has none.
// Labels that were written for another record count as absent.
func TestImages(t *testing.T) {
	t.Parallel()
	byDigest, other := "registry.test/app@"+target.String(), "registry.test/other@"+target.String()
	stale := checked("a")
	stale.Stale = store.Stale{Since: noon, Reason: store.StaleReason(failure.Unreachable)}
	r := New([]images.Image{
		record(target.String(), nil),
		record("registry.test/app:1", checked("a").Labels("registry.test/app:1", target)),
		record(byDigest, checked("b").Labels(byDigest, target)),
		record(other, stale.Labels(other, target)), // of a tag that has moved on
		record("registry.test:5000/copy:1", checked("a").Labels("registry.test/app:1", target)),
		record("registry.test/stale:1", stale.Labels("registry.test/stale:1", target)),
	}, api.Status{})
	want := "registry.test/stale:1 registry.test:5000/copy:1 registry.test/app:1 " + other
	if got := references(r); got != want {
		t.Fatalf("images\n%s, want\n%s", got, want)
	}
	for i, want := range []struct {
		proofs int
		source string
		open   bool
	}{{1, "mirror.test", false}, {0, "", true}, {2, "mirror.test", false}, {1, "mirror.test", false}} {
		if img := r.Images[i]; img.Proofs != want.proofs || img.Source() != want.source || img.Open != want.open {
			t.Errorf("%s: %+v, want %+v", img.Reference, img, want)
		}
	}
	if len(r.Problems) != 1 || r.Problems[0].ID != StaleImages || r.StaleImages != 1 || r.Healthy {
		t.Errorf("problems %v", r.Problems)
	}
}

// One pinned record keeps the image under all of its names.
func TestPinned(t *testing.T) {
	t.Parallel()
	other := record("registry.test/other:1", nil)
	other.Target.Digest = digest.FromString("two")
	r := New([]images.Image{
		record("registry.test/app:1", nil), record("registry.test/app:2", map[string]string{labels.CRIPinned: labels.CRIPinnedValue}),
		record(target.String(), nil), other,
	}, api.Status{})
	for _, i := range r.Images {
		if want := strings.HasPrefix(i.Reference, "registry.test/app:"); i.Pinned != want {
			t.Errorf("%s: pinned is %t", i.Reference, i.Pinned)
		}
	}
}

// A pin also keeps what stands for another manifest with the same config, as CRI tells.
func TestPinnedInCRI(t *testing.T) {
	t.Parallel()
	alone, other := record("registry.test/app:1-alone", nil), record("registry.test/other:1", nil)
	alone.Target.Digest, other.Target.Digest = digest.FromString("the manifest in it"), digest.FromString("other")
	r := New([]images.Image{
		record("registry.test/app:1", map[string]string{labels.CRIPinned: labels.CRIPinnedValue}), alone, other,
	}, api.Status{})
	r.PinnedInCRI(map[string]bool{"registry.test/app:1-alone": true, "registry.test/gone:1": true})
	for _, i := range r.Images {
		if want := strings.HasPrefix(i.Reference, "registry.test/app:"); i.Pinned != want {
			t.Errorf("%s: pinned is %t", i.Reference, i.Pinned)
		}
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	layers := checked("a")
	layers.PullSource, layers.ContentSources = "docker.io/library/app:1", []string{"docker.io", "cdn.test"}
	layers.Verified.At = noon.Add(-48 * time.Hour)
	r := New([]images.Image{
		record("registry.test/app:1", checked("a").Labels("registry.test/app:1", target)),
		record("docker.io/library/app:1", layers.Labels("docker.io/library/app:1", target)),
		record("registry.test/imported:1", nil),
	}, api.Status{})
	for _, tt := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "registry.test/imported:1 docker.io/library/app:1 registry.test/app:1"},
		{Filter{Stale: true}, ""},
		{Filter{Source: "MIRROR.test:443"}, "registry.test/app:1"},
		{Filter{Source: "registry-1.docker.io"}, "docker.io/library/app:1"},
		{Filter{Source: "cdn.test"}, "docker.io/library/app:1"},
		{Filter{OlderThan: 24 * time.Hour}, "registry.test/imported:1 docker.io/library/app:1"},
		{Filter{OlderThan: 24 * time.Hour, Source: "cdn.test"}, "docker.io/library/app:1"},
	} {
		if got := references(r.Only(tt.filter, noon)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.filter, got, tt.want)
		}
	}
	if len(r.Images) != 3 {
		t.Error("a filter changed the report")
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	r := New(nil, api.Status{
		Rules:  api.Rules{Path: "/rules", Rules: 2, Files: 1, Error: "a.toml:3: no"},
		Hosts:  []api.Host{{Host: "https://registry.test", Class: "unavailable", Since: noon}},
		Limits: []string{"one setting"}, AuditLost: 1,
		HostFiles: []api.HostFile{
			{Path: "/a/hosts.toml", Error: "/a/hosts.toml:1: no", LastGood: true}, {Path: "/b/hosts.toml", Error: "/b/hosts.toml:2: no"},
			{Path: "/c/hosts.toml", Error: "/c/hosts.toml: ca.pem: no", LastGood: true, OnlyAsked: true},
		},
	})
	var texts []string
	for _, p := range append(r.Problems, r.Notes...) {
		texts = append(texts, p.ID+": "+p.Text)
	}
	want := `rules_not_taken: the rule files in /rules are not taken, the last good 2 rules are used instead: a.toml:3: no
hosts_not_taken: /a/hosts.toml is not taken, its last good version is used instead: /a/hosts.toml:1: no
hosts_not_taken: /b/hosts.toml is not taken, and no good version of it was kept, so requests for its registries fail: /b/hosts.toml:2: no
hosts_not_taken: /c/hosts.toml is not taken, and requests fail for those of its registries that were not asked before: /c/hosts.toml: ca.pem: no
host_in_trouble: https://registry.test is in trouble since 2026-01-02T12:00:00Z: unavailable
audit_lost: the audit log is not written: 1 decision lost up to now
unenforceable: one setting`
	if got := strings.Join(texts, "\n"); got != want || r.Healthy {
		t.Errorf("problems\n%s", got)
	}
	if observed := New(nil, api.Status{Rules: api.Rules{RestObserved: true}}); !observed.Healthy {
		t.Error("what is observed makes a node unhealthy")
	}
	if limited := New(nil, api.Status{Limits: []string{"one setting"}}); !limited.Healthy {
		t.Error("a setting makes a node unhealthy")
	}
}

// Images that nobody has asked about are told where they are open, and only there.
func TestOpenImagesAreToldWhereTheyAreOpen(t *testing.T) {
	t.Parallel()
	imported := []images.Image{record("registry.test/imported:1", nil)}
	if strict := New(imported, api.Status{}); len(strict.Notes) != 0 {
		t.Errorf("where no rule has access = Verified: %v", strict.Notes)
	}
	verified := New(imported, api.Status{Rules: api.Rules{Verified: true}})
	if len(verified.Notes) != 1 || verified.Notes[0].ID != OpenImages || !strings.Contains(verified.Notes[0].Text, "about 1 image:") {
		t.Errorf("where one has: %v", verified.Notes)
	}
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rules api.Rules
		want  string
	}{
		{api.Rules{Rules: 2}, ""},
		{api.Rules{Rules: 1, Observed: 1}, "under 1 of 1 rule, containerd pulls by itself"},
		{api.Rules{Rules: 5, Observed: 2, RestObserved: true}, "under 2 of 5 rules, and for images that no rule matches, containerd pulls by itself"},
		{api.Rules{Rules: 5, RestObserved: true}, "for images that no rule matches, containerd pulls by itself"},
		{api.Rules{Rules: 5, Observed: 5, RestObserved: true}, "containerd pulls all images by itself"},
		{api.Rules{RestObserved: true}, "containerd pulls all images by itself"},
	} {
		notes := New(nil, api.Status{Rules: tt.rules}).Notes
		if tt.want == "" && len(notes) == 0 {
			continue
		}
		if len(notes) != 1 || notes[0] != (Problem{Observed, `mode = "Observe": ` + tt.want}) {
			t.Errorf("%+v: %v", tt.rules, notes)
		}
	}
}
