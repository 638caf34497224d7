// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestPrefetchIsRefused holds that a refusal of what was asked for ahead fails no pull, and
// that one of what containerd asks for does.
func TestPrefetchIsRefused(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patient)
	n.Push("app:1", resolvertest.Image(1, 1, 1<<10))
	ref := nodetest.Named("app:1")
	var asked sync.Map
	undo := n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		_, again := asked.LoadOrStore(req.URL.Path, true)
		if strings.Contains(req.URL.Path, "/blobs/") && !again { // containerd asks for what was refused
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
	n.MustPull(ref)
	undo()
	nodetest.Want(t, "requests for blobs", n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)), 4)
	if n.Labels(ref)["access.anonymous"] == "" {
		t.Errorf("no proof of access in %v", n.Labels(ref))
	}
	n.WantRunnable(ref)

	n.Push("other:1", resolvertest.Image(2, 1, 1<<10))
	n.Registry.Status(resolvertest.Blobs, http.StatusForbidden)
	mark := n.Mark()
	n.MustFail(nodetest.Named("other:1"), []string{"forbidden"})
	nodetest.Want(t, "reason", n.Decision(mark, nodetest.Named("other:1")).Reason, "forbidden")
}

// TestTagMovesMeanwhile holds that a pull is of the manifest that its check has read.
func TestTagMovesMeanwhile(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patient)
	first := n.Push("app:1", nodetest.Image(1))
	second := n.Push("app:2", nodetest.Image(2))
	ref := nodetest.Named("app:1")
	undo := n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		next.ServeHTTP(w, req)
		if strings.HasSuffix(req.URL.Path, "/manifests/1") {
			n.Tag("app", "1", second)
		}
	})
	n.MustPull(ref)
	undo()
	nodetest.Want(t, "first image", n.Target(ref), first)
	n.WantRunnable(ref)
	n.MustPull(ref)
	nodetest.Want(t, "second image", n.Target(ref), second)
}

// TestMirrorFailsMeanwhile holds who the sources are, and who is passed over, where a mirror
// fails at some point of a cold pull.
func TestMirrorFailsMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble func(*resolvertest.Registry)
		mirror  bool // the manifest is the mirror's
	}{
		"wrong manifest":   {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Manifests) }, false},
		"refuses manifest": {func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, http.StatusForbidden) }, false},
		"page":             {func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }, false},
		"dies after it":    {func(r *resolvertest.Registry) { r.Reset(resolvertest.Blobs) }, true},
		"lacks the rest":   {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, http.StatusNotFound) }, true},
		"wrong config":     {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, http.StatusForbidden) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, patient)
			mirror := resolvertest.New(t)
			n.Serve("registry.test", n.Registry, mirror)
			want := n.Push("app:1", nodetest.Image(1))
			n.PushTo(mirror, "app:1", nodetest.Image(1))
			test.trouble(mirror)
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			nodetest.Want(t, "image", n.Target(ref), want)
			from := n.Registry.Host()
			if test.mirror {
				from = mirror.Host()
				nodetest.Want(t, "content-sources", n.Labels(ref)["content-sources"], mirror.Host()+","+n.Registry.Host())
			}
			nodetest.Want(t, "pull-source", n.Labels(ref)["pull-source"], from+"/app:1")
			n.WantRunnable(ref)
		})
	}
}

// TestManifestHangs holds that a manifest that does not come in the time of a check is no
// failure: the pull has more time for it.
func TestManifestHangs(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "10s"`))
	want := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	undo := n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if _, err := digest.Parse(req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]); err == nil || req.Method != http.MethodGet {
			next.ServeHTTP(w, req)
			return
		}
		<-req.Context().Done()
	})
	n.MustPull(ref)
	undo()
	nodetest.Want(t, "image", n.Target(ref), want)
	asked, _ := connections{}.requests(n)
	nodetest.Want(t, "requests", asked, "GET manifests, HEAD manifests, GET manifests, GET blobs, GET blobs, GET blobs")
}
