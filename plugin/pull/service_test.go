// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	snpkg "github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"
	"github.com/containerd/imgcrypt/v2"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestDiscardLayers(t *testing.T) {
	for _, discard := range []bool{false, true} {
		n := newNode(t)
		img := resolvertest.Image(1, 2, 100)
		ref, target := n.push("app:1", img)
		s := settings()
		s.DiscardLayers = discard
		id := n.pull(s, ref, "")
		n.collect()

		compressed, diffIDs := layers(t, img)
		for i, layer := range compressed {
			if n.has(layer) == discard {
				t.Errorf("discard %t: layer %d is there: %t", discard, i, n.has(layer))
			}
			if n.snapshot("native", identity.ChainID(diffIDs[:i+1])) == nil {
				t.Errorf("discard %t: no snapshot of layer %d", discard, i)
			}
		}
		if !n.has(target) || !n.has(digest.Digest(id)) {
			t.Errorf("discard %t: manifest or config is gone", discard)
		}
	}
}

// An image whose layers were discarded can still be pulled for another
// snapshotter: what is missing is fetched again.
func TestDiscardedLayersForAnotherSnapshotter(t *testing.T) {
	n := newNode(t)
	img := resolvertest.Image(2, 2, 100)
	ref, _ := n.push("app:1", img)
	s := settings()
	s.DiscardLayers = true
	n.pull(s, ref, "native")
	n.collect()
	_, diffIDs := layers(t, img)
	top := identity.ChainID(diffIDs)
	if n.snapshot("second", top) != nil {
		t.Fatal("unpacked for a snapshotter that nobody asked for")
	}
	n.pull(s, ref, "second")
	n.collect()
	if n.snapshot("native", top) == nil || n.snapshot("second", top) == nil {
		t.Error("a snapshot is missing")
	}
	if len(n.applier.applied) != 4 {
		t.Errorf("%d layers were unpacked, want 2 for each snapshotter", len(n.applier.applied))
	}
}

func TestSnapshotAnnotations(t *testing.T) {
	for _, annotate := range []bool{false, true} {
		n := newNode(t)
		// What the snapshotter's plugin exports counts for the transfer service
		// alone, not for CRI's own pull.
		n.Exports = map[string]map[string]string{"native": {remoteAnnotations: "true"}}
		img := resolvertest.Image(3, 1, 100)
		ref, target := n.push("app:1", img)
		s := settings()
		s.SnapshotAnnotations = annotate
		n.pull(s, ref, "")
		if n.Exports["native"][remoteAnnotations] != "true" {
			t.Error("the exports of the plugin were changed")
		}

		compressed, diffIDs := layers(t, img)
		labels := n.snapshot("native", identity.ChainID(diffIDs))
		want := map[string]string{
			snpkg.TargetRefLabel:            ref,
			snpkg.TargetLayerDigestLabel:    compressed[0].String(),
			snpkg.TargetImageLayersLabel:    compressed[0].String(),
			snpkg.TargetManifestDigestLabel: target.String(),
		}
		for label, value := range want {
			if !annotate {
				value = ""
			}
			if labels[label] != value {
				t.Errorf("annotate %t: %s is %q, want %q", annotate, label, labels[label], value)
			}
		}
	}
}

func TestApplyOptions(t *testing.T) {
	for _, on := range []bool{false, true} {
		n := newNode(t)
		ref, _ := n.push("app:1", resolvertest.Image(4, 2, 100))
		s := settings()
		s.SyncFS, s.DecryptOnNode = on, on
		n.pull(s, ref, "")
		if len(n.applier.configs) != 2 {
			t.Fatalf("%d layers were unpacked", len(n.applier.configs))
		}
		for _, c := range n.applier.configs {
			if c.SyncFs != on {
				t.Errorf("on %t: sync %t", on, c.SyncFs)
			}
			for _, id := range imgcrypt.PayloadToolIDs {
				if (c.ProcessorPayloads[id] != nil) != on {
					t.Errorf("on %t: payload for %s: %v", on, id, c.ProcessorPayloads[id])
				}
			}
		}
	}
}

func TestOneManifestOfAnIndex(t *testing.T) {
	n := newNode(t)
	index := resolvertest.Index(5, 1, 100)
	ref, target := n.push("app:1", index)
	id := n.pull(settings(), ref, "")
	if !n.has(target) || !n.has(digest.Digest(id)) {
		t.Error("index or config is not there")
	}
	if len(n.applier.applied) != 1 {
		t.Errorf("%d layers were unpacked, want that of one manifest", len(n.applier.applied))
	}
	manifest, err := index.IndexManifest()
	check(t, err)
	var there int
	for _, m := range manifest.Manifests {
		if n.has(digest.Digest(m.Digest.String())) {
			there++
		}
	}
	if there != 1 {
		t.Errorf("%d manifests are there, want 1", there)
	}
}

func TestMaxConcurrentDownloads(t *testing.T) {
	for _, limit := range []int{1, 4} {
		n := newNode(t)
		img := resolvertest.Image(6, 4, 100)
		ref, _ := n.push("app:1", img)
		compressed, _ := layers(t, img)
		var (
			mu             sync.Mutex
			running, most  int
			reached        = make(chan struct{})
			isLayer        = func(p string) bool { return slices.Contains(compressed, digest.Digest(path.Base(p))) }
			begin, release = func() {
				mu.Lock()
				defer mu.Unlock()
				if running++; running > most {
					most = running
					if most == limit {
						close(reached)
					}
				}
			}, func() { mu.Lock(); defer mu.Unlock(); running-- }
		)
		n.registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method != http.MethodGet || !isLayer(r.URL.Path) {
				next.ServeHTTP(w, r)
				return
			}
			begin()
			select {
			case <-reached:
			case <-r.Context().Done():
			}
			// Before the answer: the next request may begin when it has come.
			release()
			next.ServeHTTP(w, r)
		})
		s := settings()
		s.MaxConcurrentDownloads = limit
		n.pull(s, ref, "")
		if most != limit {
			t.Errorf("%d downloads at once, want %d", most, limit)
		}
	}
}

func TestServiceOnlyPulls(t *testing.T) {
	n := newNode(t)
	service, err := NewService(n.Node, settings(), nil)
	check(t, err)
	from := image.NewStore("registry.test/app:1")
	for what, err := range map[string]error{
		"from a store": service.Transfer(n.ctx, from, from),
		"to nothing":   service.Transfer(n.ctx, n.plan(n.registry.Host()+"/app:1").Source, 1),
	} {
		if !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), "pull") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
