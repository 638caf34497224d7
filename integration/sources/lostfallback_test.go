// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// movedOnto is a node whose strict pods have an image from the registry alone, whose tag stands for
// another one by now. Another tenant has a layer of that one on the node, from a registry of its own;
// the registry answers for it by the script. It returns the tag.
func movedOnto(t *testing.T, layer func(http.ResponseWriter, *http.Request, http.Handler), opts ...nodetest.Option) (m *mirrored, tag string) {
	t.Helper()
	m = newMirrored(t, opts...)
	m.withoutMirror()
	others := resolvertest.New(t)
	m.Serve("others.test", others)
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
	tag = nodetest.Named("app:1")
	m.Push("app:1", nodetest.Image(7))
	m.MustPull(tag, strict)

	base := resolvertest.Image(1, 1, 500)
	m.PushTo(others, "base:1", base)
	m.MustPull("others.test/base:1", free)
	m.Push("app:1", onTopOf(t, base, resolvertest.Image(2, 1, 500)))
	layers, err := base.Layers()
	m.Must(err)
	dgst, err := layers[0].Digest()
	m.Must(err)
	t.Cleanup(m.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, dgst.String()) {
			next.ServeHTTP(w, r)
			return
		}
		layer(w, r, next)
	}))
	return m, tag
}

// wantStrict holds that a strict pod gets that for the image.
func (m *mirrored) wantStrict(tag, want string, opts ...node.PullOption) {
	m.T.Helper()
	mark := m.Mark()
	_, err := m.Pull(tag, append(opts, strict)...)
	got := m.Decision(mark, tag)
	if err != nil {
		m.T.Errorf("%s: %v", tag, err)
	}
	nodetest.Want(m.T, tag, got.Outcome+" ("+got.Reason+")", want)
}

// TestFallbackWhereALayerIsFromElsewhere holds that pods under a list of sources fall back to the image
// that they have as long as the registry does not give what others have brought of the next one.
func TestFallbackWhereALayerIsFromElsewhere(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	m, tag := movedOnto(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}, nodetest.Section(nodetest.IfDigestChanged))
	v1 := m.Target(tag)
	m.wantStrict(tag, "UsedCached (unavailable)")
	m.wantStrict(tag, "UsedCached (unavailable)")
	m.wantStrict(tag, "Present (policy)", node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "the tag keeps its image", m.Target(tag), v1)

	well.Store(true)
	m.wantStrict(tag, "Pulled (changed)")
	m.wantSources("compared with the registry", tag, m.Registry.Host()+"/app:1", "")
	nodetest.Want(t, "the record says that it was compared", m.Labels(tag)["compared"], "true")
	m.Registry.Refuse()
	m.wantStrict(tag, "UsedCached (unreachable)")
}

// TestDeadlineWhereALayerIsFromElsewhere holds that a comparison counts for a pull_deadline as the pull does.
func TestDeadlineWhereALayerIsFromElsewhere(t *testing.T) {
	t.Parallel()
	comes := make(chan struct{})
	m, tag := movedOnto(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-comes:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}, nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "1s"`))
	m.wantStrict(tag, "UsedCached (pull_deadline)")
	m.wantStrict(tag, "UsedCached (pull_deadline)")
	v1 := m.Target(tag)
	close(comes)
	nodetest.Eventually(t, "the comparison ends in the background", func() bool { return m.Target(tag) != v1 })
	nodetest.Want(t, "the record says that it was compared", m.Labels(tag)["compared"], "true")
	m.wantStrict(tag, "Unchanged (same_digest)")
}

// TestStalledLayerFromElsewhere holds that a comparison in a pull is given up as the pull is.
func TestStalledLayerFromElsewhere(t *testing.T) {
	t.Parallel()
	m, tag := movedOnto(t, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() },
		nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(`image_pull_progress_timeout = "1s"`))
	m.wantStrict(tag, "UsedCached (unreachable)")
}
