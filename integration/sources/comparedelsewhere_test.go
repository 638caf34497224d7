// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

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

// TestComparedAndDeliveredFromElsewhere holds that what a mirror, which is not allowed, delivers of a compared image
// at once, to a caller who has proved nothing by another tag, has the image compared anew: the comparison is on the
// record of repository@digest by then.
func TestComparedAndDeliveredFromElsewhere(t *testing.T) {
	t.Parallel()
	m, as := newPrivate(t, []string{"one", "two", "three"}, nodetest.Section(nodetest.IfDigestChanged))
	img := nodetest.Image(1)
	byDigest := nodetest.Named("app@" + m.both("app:2", img).String())
	m.both("app:3", img)
	m.MustPull(nodetest.Named("app:2"), free, as("three"))
	m.MustPull(byDigest, strict, as("one"))
	m.pullsElsewhere(nodetest.Named("app:3"), as("two"))
	m.wantStrict(byDigest, "Pulled (source)", as("one"))
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
	m.wantStrict(tag, "Pulled (source)", handler)
}

// comparing is a node on which another tenant has brought the base of an image, which a strict pod's pull of app:2 compares
// therefore. The image is app:1, too.
type comparing struct {
	*mirrored
	img      v1.Image
	byDigest string
	base     v1.Hash // the digest of its layer
	as       func(user string) node.PullOption
}

func newComparing(t *testing.T, mirror bool) *comparing {
	t.Helper()
	private, as := newPrivate(t, []string{"one", "two"}, nodetest.Section(nodetest.IfDigestChanged))
	m := &comparing{mirrored: private, as: as}
	if !mirror {
		m.withoutMirror()
	}
	others, base := resolvertest.New(t), resolvertest.Image(1, 1, 500)
	m.Serve("others.test", others)
	m.PushTo(others, "base:1", base)
	m.MustPull("others.test/base:1", free)
	m.img = onTopOf(t, base, resolvertest.Image(2, 1, 500))
	m.byDigest = nodetest.Named("app@" + m.both("app:1", m.img).String())
	m.both("app:2", m.img)
	layers, err := base.Layers()
	m.Must(err)
	m.base, err = layers[0].Digest()
	m.Must(err)
	return m
}

// pull pulls app:2 for a strict pod, and does something while that is compared.
func (m *comparing) pull(meanwhile func()) {
	m.T.Helper()
	compares, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.T.Cleanup(m.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, m.base.String()) && r.Method == http.MethodGet && r.Header.Get("Authorization") != "" {
			once.Do(func() { close(compares); <-goOn })
		}
		next.ServeHTTP(w, r)
	}))
	done := make(chan error, 1)
	go func() { _, err := m.Pull(nodetest.Named("app:2"), strict, m.as("one")); done <- err }()
	<-compares
	meanwhile()
	close(goOn)
	m.Must(<-done)
}

// TestFetchedFromElsewhereWhileAPullCompares holds the same of what the mirror delivers by another tag while a pull
// compares the image, of which another tenant has brought the base.
func TestFetchedFromElsewhereWhileAPullCompares(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []bool{false, true} {
		t.Run(fmt.Sprintf("meanwhile is %v", meanwhile), func(t *testing.T) {
			t.Parallel()
			m := newComparing(t, true)
			other := func() { m.pullsElsewhere(nodetest.Named("app:1"), m.as("two")) }
			if meanwhile {
				m.pull(other)
				m.wantStrict(m.byDigest, "Pulled (source)", m.as("one"))
				return
			}
			other()
			m.pull(func() {})
			m.wantStrict(m.byDigest, "Present (digest)", m.as("one"))
		})
	}
}

// TestFetchedFromTheRegistryWhileAPullCompares holds that what the allowed registry alone delivers then changes nothing: the
// image is there by its digest while the registry is down.
func TestFetchedFromTheRegistryWhileAPullCompares(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"app:1", "the digest"} {
		for _, imported := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %s, imported is %v", other, imported), func(t *testing.T) {
				t.Parallel()
				m := newComparing(t, false)
				ref := nodetest.Named("app:1")
				if other == "the digest" {
					ref = m.byDigest
				}
				if imported {
					m.Import(nodetest.Named("app:2"), m.img)
				}
				m.pull(func() { m.MustPull(ref, free, m.as("two")) })
				m.Registry.Refuse()
				m.wantStrict(m.byDigest, "Present (digest)", m.as("one"))
			})
		}
	}
}
