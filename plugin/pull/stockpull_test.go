// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var errStock = errors.New("scripted")

// reader is CRI's index, as it reads records: for a name whose record it cannot read it keeps what it has.
type reader struct {
	*Puller
	has map[string]digest.Digest
}

func (r *reader) UpdateImage(ctx context.Context, name string) error {
	image, err := r.images.Get(ctx, name)
	if errdefs.IsNotFound(err) {
		delete(r.has, name)
		return nil
	}
	if err == nil {
		_, err = image.RootFS(ctx, r.contents, platforms.Default())
	}
	if err == nil {
		r.has[name] = image.Target.Digest
	}
	return err
}

// moving is a node with an image of a tag, another one which CRI cannot read, and a third one.
type moving struct {
	*node
	*Puller
	ref                    string
	old, newer, unreadable images.Image
	cri                    *reader
}

func newMoving(t *testing.T) *moving {
	m := &moving{node: newNode(t)}
	pulled := func(name string, seed int64) images.Image {
		ref, _ := m.push(name, resolvertest.Image(seed, 2, 100))
		m.pull(settings(), ref, "")
		image, err := m.Images.Get(m.ctx, ref)
		check(t, err)
		return image
	}
	m.old, m.newer = pulled("team/app:1", 1), pulled("team/app:3", 3)
	m.unreadable = m.old
	m.unreadable.Target.Digest = digest.FromString("nowhere")
	m.Puller, m.ref = m.puller(settings()), m.old.Name
	m.cri = &reader{m.Puller, map[string]digest.Digest{}}
	m.Puller.index = m.cri
	m.read(m.ref)
	return m
}

// read has CRI read the record of a name, as it does when a record changes.
func (m *moving) read(name string) { _ = m.cri.UpdateImage(m.ctx, name) }

// target returns what a name stands for; "" where there is no such name. It fails the test where CRI takes it for
// something else.
func (m *moving) target(what, name string) (target digest.Digest) {
	m.t.Helper()
	image, err := m.Images.Get(m.ctx, name)
	if !errdefs.IsNotFound(err) {
		check(m.t, err)
		target = image.Target.Digest
	}
	if has, ok := m.cri.has[name]; ok && has != target {
		m.t.Errorf("%s: the name stands for %q, and CRI takes it for %s", what, target, has)
	}
	return target
}

// move lets a name stand for an image, which CRI reads if it can.
func (m *moving) move(name string, to images.Image) {
	m.t.Helper()
	image := images.Image{Name: name, Target: to.Target}
	_, err := m.Images.Create(m.ctx, image)
	if errdefs.IsAlreadyExists(err) {
		_, err = m.Images.Update(m.ctx, image, "target")
	}
	check(m.t, err)
	m.read(name)
}

// spoil returns a function that moves a name to what CRI cannot read.
func (m *moving) spoil(name string) func() { return func() { m.move(name, m.unreadable) } }

// fail is a pull of containerd's own that does this, and fails.
func (m *moving) fail(name string, do func()) {
	m.t.Helper()
	err := m.StockPull(m.ctx, name, func() error {
		do()
		return errStock
	})
	if !errors.Is(err, errStock) {
		m.t.Errorf("the pull ended with %v", err)
	}
}

// A name that containerd's own pull has moved to an image which CRI cannot read goes, if the pull has failed, and the
// image that it stood for stays under its ID and its digest. One that CRI reads, or that was not touched, stays.
func TestStockPullThatFails(t *testing.T) {
	m := newMoving(t)
	id, err := m.old.Config(m.ctx, m.Contents, platforms.Default())
	check(t, err)
	canonical := strings.TrimSuffix(m.ref, ":1") + "@" + m.old.Target.Digest.String()
	const absent, broken = "registry.test/absent:1", "registry.test/broken:1"
	for what, tc := range map[string]struct {
		name     string
		to, want images.Image
	}{
		"CRI reads it":                     {m.ref, m.newer, m.newer},
		"CRI cannot read it":               {m.ref, m.unreadable, images.Image{}},
		"CRI cannot read a new one":        {absent, m.unreadable, images.Image{}},
		"CRI reads a new one":              {absent, m.newer, m.newer},
		"CRI could not read it before":     {broken, m.unreadable, images.Image{}},
		"CRI could not read it, untouched": {broken, images.Image{}, m.unreadable},
		"untouched":                        {m.ref, images.Image{}, m.old},
	} {
		m.move(m.ref, m.old)
		m.move(broken, m.unreadable)
		_ = m.Images.Delete(m.ctx, absent)
		m.read(absent)
		m.fail(tc.name, func() {
			if tc.to.Name != "" {
				m.move(tc.name, tc.to)
			}
		})
		if now := m.target(what, tc.name); now != tc.want.Target.Digest {
			t.Errorf("%s: the name stands for %q", what, now)
		}
		for _, name := range []string{id.Digest.String(), canonical} {
			if now := m.target(what, name); now != m.old.Target.Digest {
				t.Errorf("%s: %s stands for %q", what, name, now)
			}
		}
	}
}

// A pull that succeeds is left alone: CRI has read what it has stored.
func TestStockPullThatSucceeds(t *testing.T) {
	m := newMoving(t)
	check(t, m.StockPull(m.ctx, m.ref, func() error {
		m.move(m.ref, m.newer)
		return nil
	}))
	if now := m.target("it succeeds", m.ref); now != m.newer.Target.Digest {
		t.Errorf("the name stands for %q", now)
	}
}

// Whatever other pulls do to the name meanwhile, CRI takes it for nothing that it does not stand for.
func TestStockPullsAtOnce(t *testing.T) {
	const absent, broken = "registry.test/absent:1", "registry.test/broken:1"
	for what, pulls := range map[string]func(m *moving){
		"several fail": func(m *moving) {
			m.fail(m.ref, func() {
				m.move(m.ref, m.unreadable)
				m.fail(m.ref, func() {
					m.fail(m.ref, m.spoil(m.ref))
					m.move(m.ref, m.unreadable)
				})
				m.move(m.ref, m.unreadable)
			})
		},
		"another that does nothing ends last": func(m *moving) {
			m.fail(m.ref, func() { m.fail(m.ref, m.spoil(m.ref)) })
		},
		"removed and made again by another": func(m *moving) {
			m.fail(m.ref, func() {
				check(m.t, m.Images.Delete(m.ctx, m.ref))
				m.fail(m.ref, m.spoil(m.ref))
			})
		},
		"removed and made again by its own": func(m *moving) {
			m.fail(m.ref, func() {
				check(m.t, m.Images.Delete(m.ctx, m.ref))
				m.move(m.ref, m.unreadable)
			})
		},
		"CRI has read another's of a new name": func(m *moving) {
			m.fail(absent, func() {
				m.move(absent, m.newer)
				m.move(absent, m.unreadable)
			})
		},
		"CRI has read another's of a name that it could not read": func(m *moving) {
			m.move(broken, m.unreadable)
			check(m.t, m.StockPull(m.ctx, broken, func() error {
				m.fail(broken, func() {
					m.move(broken, m.newer)
					m.move(broken, m.unreadable)
				})
				return nil
			}))
		},
		"a newer one is stored before": func(m *moving) {
			m.fail(m.ref, func() {
				m.push("team/app:1", resolvertest.Image(4, 2, 100))
				_, err := m.Pull(m.ctx, m.plan(m.ref), "")
				check(m.t, err)
				m.move(m.ref, m.unreadable)
			})
		},
	} {
		m := newMoving(t)
		pulls(m)
		for _, name := range []string{m.ref, absent, broken} {
			if now := m.target(what, name); now == m.unreadable.Target.Digest {
				t.Errorf("%s: %s stands for what CRI cannot read", what, name)
			}
		}
	}
}

// What CRI could not read when the pull has moved the name to it may be on the node by the end of that, and be gone again
// later: CRI takes the name for nothing else in between.
func TestStockPullOfWhatComesLater(t *testing.T) {
	m := newMoving(t)
	data, err := content.ReadBlob(m.ctx, m.Contents, m.newer.Target)
	check(t, err)
	data = append(data, '\n')
	late := m.newer
	late.Target.Digest, late.Target.Size = digest.FromBytes(data), int64(len(data))
	m.fail(m.ref, func() {
		m.move(m.ref, late)
		check(t, content.WriteBlob(m.ctx, m.Contents, "late", bytes.NewReader(data), late.Target))
	})
	m.target("it has come", m.ref)
	check(t, m.Contents.Delete(m.ctx, late.Target.Digest))
	m.read(m.ref)
	m.target("it has gone", m.ref)
}

// Between a pull's look at the record and its end, a newer image that another pull has stored stays; labels that were
// written keep nothing.
func TestNameMovedWhileItIsForgotten(t *testing.T) {
	m := newMoving(t)
	m.move(m.ref, m.newer)
	m.forget(m.ctx, m.unreadable, errStock)
	if now := m.target("moved on", m.ref); now != m.newer.Target.Digest {
		t.Errorf("moved on: the name stands for %q", now)
	}

	m = newMoving(t)
	m.move(m.ref, m.unreadable)
	judged, err := m.Images.Get(m.ctx, m.ref)
	check(t, err)
	labelled := judged
	labelled.Labels = maps.Clone(judged.Labels)
	labelled.Labels["team"] = "a"
	_, err = m.Images.Update(m.ctx, labelled, "labels.team")
	check(t, err)
	m.forget(m.ctx, judged, errStock)
	if now := m.target("labelled", m.ref); now != "" {
		t.Errorf("labelled: the name stands for %q", now)
	}
}
