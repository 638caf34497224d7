// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

// reporting is a source of which one host has served all.
type reporting struct {
	transfer.ImageFetcher
	host string
}

func (r reporting) Hosts() []string { return []string{r.host} }

func (r reporting) ServedBy(digest.Digest) provenance.Provenance {
	return provenance.Provenance{Hosts: []string{r.host}, Reference: r.host + "/app:1"}
}

// changedLabels notes which labels of content are changed after it was committed.
type changedLabels struct {
	content.Store
	mu  sync.Mutex
	all []string
}

func (c *changedLabels) Update(ctx context.Context, info content.Info, fieldpaths ...string) (content.Info, error) {
	c.mu.Lock()
	c.all = append(c.all, fieldpaths...)
	c.mu.Unlock()
	return c.Store.Update(ctx, info, fieldpaths...)
}

// Content is committed together with where it came from, and with containerd's label of its
// repository: at no moment it is there without, and neither takes a transaction of its own.
func TestContentIsCommittedWithItsSource(t *testing.T) {
	n := newNode(t)
	changed := &changedLabels{Store: n.Contents}
	n.Contents = changed
	img := resolvertest.Image(1, 2, 100)
	ref, target := n.push("team/app:1", img)
	plan := n.plan(ref)
	plan.Source = reporting{plan.Source, n.registry.Host()}
	id, err := n.puller(settings()).Pull(n.ctx, plan, "")
	check(t, err)
	compressed, _ := layers(t, img)
	host, _, _ := strings.Cut(n.registry.Host(), ":")
	for _, d := range append(compressed, target, digest.Digest(id)) {
		info, err := n.Contents.Info(n.ctx, d)
		check(t, err)
		if got := info.Labels[store.LabelContentSources]; got != n.registry.Host() {
			t.Errorf("%s has come from %q", d, got)
		}
		if got := info.Labels["containerd.io/distribution.source."+host]; got != "team/app" {
			t.Errorf("%s is of the repository %q", d, got)
		}
	}
	for _, path := range changed.all {
		if strings.HasPrefix(path, "labels."+store.Prefix) || strings.Contains(path, "distribution.source") {
			t.Errorf("%s was written by itself", path)
		}
	}
	if !slices.ContainsFunc(changed.all, func(path string) bool { return strings.Contains(path, "uncompressed") }) {
		t.Errorf("changes were not noted: %v", changed.all)
	}
	// Another repository has the same content: it is added.
	again, _ := n.push("other/app:1", img)
	n.pull(settings(), again, "")
	info, err := n.Contents.Info(n.ctx, target)
	check(t, err)
	if got := info.Labels["containerd.io/distribution.source."+host]; got != "other/app,team/app" {
		t.Errorf("the manifest is of the repositories %q", got)
	}
}
