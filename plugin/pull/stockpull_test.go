// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"errors"
	"maps"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var errStock = errors.New("scripted")

// moving is a node with an image of a tag, another one which CRI cannot read, and a third one.
type moving struct {
	*node
	*Puller
	ref                    string
	old, newer, unreadable images.Image
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
	return m
}

// target returns what a name stands for; "" where there is no such name.
func (m *moving) target(name string) digest.Digest {
	image, err := m.Images.Get(m.ctx, name)
	if errdefs.IsNotFound(err) {
		return ""
	}
	check(m.t, err)
	return image.Target.Digest
}

// move lets a name stand for an image.
func (m *moving) move(name string, to images.Image) {
	image := images.Image{Name: name, Target: to.Target}
	_, err := m.Images.Create(m.ctx, image)
	if errdefs.IsAlreadyExists(err) {
		_, err = m.Images.Update(m.ctx, image, "target")
	}
	check(m.t, err)
}

// pullOf is a pull of containerd's own that moves the name to an image.
func (m *moving) pullOf(name string, to images.Image, end error) error {
	return m.StockPull(m.ctx, name, func() error {
		m.move(name, to)
		return end
	})
}

// A name that containerd's own pull has moved to an image which CRI cannot read, and has failed then, gets back
// what it stood for, and a new name goes. One that CRI reads, or that was not moved, stays.
func TestStockPullThatFails(t *testing.T) {
	m := newMoving(t)
	kept := maps.Clone(m.old.Labels)
	before := m.old
	before.Labels = maps.Clone(kept)
	before.Labels["pullwarden.io/access.anonymous"] = "2026-01-02T12:00:00Z registry.test"
	const absent, broken = "registry.test/absent:1", "registry.test/broken:1"
	m.move(broken, m.unreadable)
	for what, tc := range map[string]struct {
		name     string
		to, want images.Image
		end      error
	}{
		"it succeeds":                {m.ref, m.unreadable, m.unreadable, nil},
		"CRI reads it":               {m.ref, m.newer, m.newer, errStock},
		"CRI cannot read it":         {m.ref, m.unreadable, m.old, errStock},
		"CRI cannot read a new one":  {absent, m.unreadable, images.Image{}, errStock},
		"CRI reads a new one":        {absent, m.newer, m.newer, errStock},
		"CRI cannot read, not moved": {broken, m.unreadable, m.unreadable, errStock},
	} {
		_, err := m.Images.Update(m.ctx, before)
		check(t, err)
		_ = m.Images.Delete(m.ctx, absent)
		if err := m.pullOf(tc.name, tc.to, tc.end); !errors.Is(err, tc.end) || m.target(tc.name) != tc.want.Target.Digest {
			t.Errorf("%s: %v, stands for %s", what, err, m.target(tc.name))
		}
		now, err := m.Images.Get(m.ctx, m.ref)
		check(t, err)
		if what == "CRI cannot read it" && !maps.Equal(now.Labels, kept) { // no proof: it may have been refused since
			t.Errorf("%s: labels %v, want %v", what, now.Labels, kept)
		}
	}
	if len(m.followed.names) != 0 {
		t.Errorf("names are followed still: %v", m.followed.names)
	}
}

// Of several pulls of a name at once each may find it moved already as it begins, given back by another, or
// moved once more: it gets back what it stood for before all of them.
func TestStockPullsThatFailAtOnce(t *testing.T) {
	m := newMoving(t)
	_ = m.StockPull(m.ctx, m.ref, func() error {
		m.move(m.ref, m.unreadable)
		_ = m.StockPull(m.ctx, m.ref, func() error {
			_ = m.pullOf(m.ref, m.unreadable, errStock)
			m.move(m.ref, m.unreadable)
			return errStock
		})
		m.move(m.ref, m.unreadable)
		return errStock
	})
	if now := m.target(m.ref); now != m.old.Target.Digest {
		t.Errorf("the name stands for %s", now)
	}
}

// A name that was removed meanwhile, and made again, goes: CRI is to take it for nothing.
func TestNameRemovedBesideAStockPull(t *testing.T) {
	for what, again := range map[string]bool{"by another pull": true, "by its own": false} {
		m := newMoving(t)
		_ = m.StockPull(m.ctx, m.ref, func() error {
			check(t, m.Images.Delete(m.ctx, m.ref))
			if again {
				_ = m.pullOf(m.ref, m.unreadable, errStock)
			} else {
				m.move(m.ref, m.unreadable)
			}
			return errStock
		})
		if now := m.target(m.ref); now != "" {
			t.Errorf("made again %s: the name stands for %s", what, now)
		}
	}
}

// Two pulls of a new name at once: what CRI has read by the one, it is to forget as the other fails.
func TestNewNameBesideAStockPullThatFails(t *testing.T) {
	m := newMoving(t)
	const name = "registry.test/absent:1"
	_ = m.StockPull(m.ctx, name, func() error {
		m.move(name, m.newer)
		_ = m.StockPull(m.ctx, "registry.test/another:1", func() error { return errStock })
		m.move(name, m.unreadable)
		return errStock
	})
	if now := m.target(name); now != "" {
		t.Errorf("the name stands for %s", now)
	}
}

// A newer image that another pull has stored meanwhile stays, or is what the name gets back.
func TestStockPullThatFailsBesideANewerImage(t *testing.T) {
	m := newMoving(t)
	_ = m.StockPull(m.ctx, m.ref, func() error {
		m.move(m.ref, m.newer) // and the pull finds it unreadable just before
		m.giveBack(m.ctx, m.unreadable, errStock)
		return nil
	})
	if now := m.target(m.ref); now != m.newer.Target.Digest {
		t.Errorf("stored after the other: the name stands for %s", now)
	}

	m = newMoving(t)
	var newer digest.Digest
	_ = m.StockPull(m.ctx, m.ref, func() error {
		_, newer = m.push("team/app:1", resolvertest.Image(4, 2, 100))
		_, err := m.Pull(m.ctx, m.plan(m.ref), "")
		check(t, err)
		m.move(m.ref, m.unreadable)
		return errStock
	})
	if now := m.target(m.ref); now != newer {
		t.Errorf("stored before the other: the name stands for %s", now)
	}
}
