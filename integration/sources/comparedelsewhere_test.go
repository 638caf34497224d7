// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// pullsElsewhere has a pod without a list of sources pull, which takes some of the image from the mirror.
func (m *mirrored) pullsElsewhere(ref string, opts ...node.PullOption) {
	m.T.Helper()
	m.mirror.Forget()
	m.MustPull(ref, append(opts, free)...)
	if m.mirror.Count(resolvertest.Of("GET", resolvertest.Blobs)) == 0 {
		m.T.Fatal("the mirror has served nothing")
	}
}

// wantComparedAnew holds that a strict pod has the image compared.
func (m *mirrored) wantComparedAnew(ref string, opts ...node.PullOption) {
	m.T.Helper()
	mark := m.Mark()
	m.MustPull(ref, append(opts, strict)...)
	got := m.Decision(mark, ref)
	nodetest.Want(m.T, "outcome", fmt.Sprintf("%s (%s)", got.Outcome, got.Reason), "Pulled (source)")
}

// TestComparedAndDeliveredFromElsewhere holds that what a mirror, which is not allowed, delivers of a compared image
// at once, to a caller who has proved nothing by another tag, has the image compared anew: the comparison is on the
// record of repository@digest by then.
func TestComparedAndDeliveredFromElsewhere(t *testing.T) {
	t.Parallel()
	users := map[string]string{}
	for _, user := range []string{"one", "two", "three"} {
		users[user] = "password-of-" + user
	}
	as := func(user string) node.PullOption { return node.Credentials(user, users[user]) }
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithBasicAuth(users)), nodetest.Section(nodetest.IfDigestChanged))
	m := &mirrored{Node: n, mirror: resolvertest.New(t, resolvertest.WithBasicAuth(users))}
	m.withMirror()
	m.allowRegistry()
	img := nodetest.Image(1)
	byDigest := nodetest.Named("app@" + m.both("app:2", img).String())
	m.both("app:3", img)
	m.MustPull(nodetest.Named("app:2"), free, as("three"))
	m.MustPull(byDigest, strict, as("one"))
	m.pullsElsewhere(nodetest.Named("app:3"), as("two"))
	m.wantComparedAnew(byDigest, as("one"))
}

// TestComparedAndFetchedFromElsewhere holds the same of layers that were discarded, and that the mirror serves for
// another snapshotter, right after a pull of the same tag that has compared the image.
func TestComparedAndFetchedFromElsewhere(t *testing.T) {
	t.Parallel()
	m := newMirrored(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
	m.allowRegistry()
	img, tag, handler := nodetest.Image(1), nodetest.Named("app:1"), node.RuntimeHandler("native")
	m.both("app:1", img)
	m.both("app:2", img)
	m.MustPull(nodetest.Named("app:2"), free)
	m.eventuallyDiscarded(img)
	m.MustPull(tag, strict)
	m.eventuallyDiscarded(img)
	m.pullsElsewhere(tag, handler)
	m.wantComparedAnew(tag, handler)
}

// TestFetchedFromElsewhereWhileAPullCompares holds the same of what the mirror delivers by another tag while a pull
// compares the image, of which another tenant has brought the base.
func TestFetchedFromElsewhereWhileAPullCompares(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "meanwhile"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			users := map[string]string{"one": "password-of-one", "two": "password-of-two"}
			as := func(user string) node.PullOption { return node.Credentials(user, users[user]) }
			n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithBasicAuth(users)), nodetest.Section(nodetest.IfDigestChanged))
			m := &mirrored{Node: n, mirror: resolvertest.New(t, resolvertest.WithBasicAuth(users))}
			m.withMirror()
			m.allowRegistry()
			others, base := resolvertest.New(t), resolvertest.Image(1, 1, 500)
			m.Serve("others.test", others)
			m.PushTo(others, "base:1", base)
			m.MustPull("others.test/base:1", free)
			img := onTopOf(t, base, resolvertest.Image(2, 1, 500))
			byDigest := nodetest.Named("app@" + m.both("app:1", img).String())
			m.both("app:2", img)
			layers, err := base.Layers()
			m.Must(err)
			layer, err := layers[0].Digest()
			m.Must(err)
			compares, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			t.Cleanup(m.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasSuffix(r.URL.Path, layer.String()) && r.Method == http.MethodGet && r.Header.Get("Authorization") != "" {
					once.Do(func() { close(compares); <-goOn })
				}
				next.ServeHTTP(w, r)
			}))
			pull := func() { m.pullsElsewhere(nodetest.Named("app:1"), as("two")) }
			if when == "before" {
				pull()
			}
			done := make(chan error, 1)
			go func() { _, err := m.Pull(nodetest.Named("app:2"), strict, as("one")); done <- err }()
			<-compares
			if when == "meanwhile" {
				pull()
			}
			close(goOn)
			m.Must(<-done)
			if when == "meanwhile" {
				m.wantComparedAnew(byDigest, as("one"))
				return
			}
			mark := m.Mark()
			m.MustPull(byDigest, strict, as("one"))
			nodetest.Want(t, "outcome", m.Decision(mark, byDigest).Outcome, "Present")
		})
	}
}
