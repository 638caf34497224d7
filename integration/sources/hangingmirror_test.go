// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// beforeHanging has a node with an imported image, a mirror that hangs where it should send manifests, and
// a registry that alone resolves tags, and answers so where it should send one; 200 = it does.
func beforeHanging(t *testing.T, code int) (m *mirrored, tag string) {
	t.Helper()
	m, tag = newMirrored(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`)), nodetest.Named("app:1")
	image := nodetest.Image(7)
	m.both("app:1", image)
	m.Import(tag, image)
	gets := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/")
	}
	t.Cleanup(m.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if gets(r) {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(m.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if gets(r) && code != http.StatusOK {
			w.WriteHeader(code)
			return
		}
		next.ServeHTTP(w, r)
	}))
	return m, tag
}

// TestQuarantineBehindAMirrorThatHangs has the registry refuse the manifest of an imported image. A mirror
// that hangs where it should give that lets nobody have the image.
func TestQuarantineBehindAMirrorThatHangs(t *testing.T) {
	t.Parallel()
	m, tag := beforeHanging(t, http.StatusForbidden)
	for _, policy := range []string{"IfNotPresent", "IfDigestChanged"} {
		mark := m.Mark()
		_, _ = m.Pull(tag, node.Hint("policy", policy))
		d := m.Decision(mark, tag)
		nodetest.Want(t, policy, d.Outcome+" "+d.Reason, "Failed forbidden")
	}
}

// TestImportBehindAMirrorThatHangs has the registry give the manifest of an imported image, in the rest of
// the time of which a mirror that hangs has let its share pass. That is a proof, and no fallback.
func TestImportBehindAMirrorThatHangs(t *testing.T) {
	t.Parallel()
	m, tag := beforeHanging(t, http.StatusOK)
	for _, access := range []string{"open", "proved"} {
		mark := m.Mark()
		m.MustPull(tag)
		d := m.Decision(mark, tag)
		nodetest.Want(t, "outcome", d.Outcome+" "+d.Reason+" "+d.Access, "Unchanged same_digest "+access)
	}
	m.WaitForWrites(tag)
	nodetest.Want(t, "stale-reason", m.Labels(tag)["stale-reason"], "")
}
