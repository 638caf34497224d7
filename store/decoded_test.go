// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/epoch"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/google/go-cmp/cmp"
)

const neighbour = "registry.test/neighbour:1"

// changing are records that clients change, and a store that counts its reads of them.
type changing struct {
	t          *testing.T
	ctx, other context.Context // of two namespaces
	always     context.Context // each write has the same time
	records    images.Store
	store      *Store
	reads      *counted
	last       [3]*Record
}

func newChanging(t *testing.T) *changing {
	ctx, s, records := newStore(t)
	t.Cleanup(func() { s.Close() })
	c := &changing{
		t: t, ctx: ctx, other: namespaces.WithNamespace(ctx, "default"), always: epoch.WithSourceDateEpoch(ctx, &noon),
		records: records, store: s, reads: &counted{Store: records},
	}
	s.images = c.reads
	c.insert(c.always, name, "a/a:1")
	c.insert(c.ctx, neighbour, "n/n:1")
	c.insert(c.other, name, "o/o:1")
	return c
}

func (c *changing) insert(ctx context.Context, name, source string) {
	c.t.Helper()
	labels := bound(name, one, map[string]string{LabelPullSource: source})
	if _, err := c.records.Create(ctx, images.Image{Name: name, Target: one, Labels: labels}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *changing) update(ctx context.Context, name, source string) {
	c.t.Helper()
	labels := bound(name, one, map[string]string{LabelPullSource: source})
	if _, err := c.records.Update(ctx, images.Image{Name: name, Target: one, Labels: labels}, "labels"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *changing) remove(name string) {
	c.t.Helper()
	if err := c.records.Delete(c.ctx, name); err != nil {
		c.t.Fatal(err)
	}
}

// compare writes the source of a record as a comparison does.
func (c *changing) compare(source string) {
	c.t.Helper()
	compared := func(State) State { return State{Compared: true, PullSource: source} }
	if err := c.store.WriteSources(c.ctx, one.Digest, compared, name); err != nil {
		c.t.Fatal(err)
	}
}

// sources returns those of name, neighbour, and name in the other namespace, and checks
// that a record is the same value as long as it has not changed, and no longer.
func (c *changing) sources() (sources [3]string) {
	c.t.Helper()
	for i, q := range []struct {
		ctx  context.Context
		name string
	}{{c.ctx, name}, {c.ctx, neighbour}, {c.other, name}} {
		found, err := c.store.First(q.ctx, [][]string{{q.name}})
		if err != nil {
			c.t.Fatal(err)
		}
		before, now := c.last[i], found[0]
		if now != nil {
			sources[i] = now.PullSource
		}
		if before != nil && now != nil && (before == now) != (before.PullSource == now.PullSource) {
			c.t.Errorf("%s: was %p, %s, and is %p, %s", q.name, before, before.PullSource, now, now.PullSource)
		}
		c.last[i] = now
	}
	return sources
}

// A change of one record has none of the others read again, in any namespace, and a
// record that has not changed is the same value; one that has changed is not, though its
// times may be those of before.
func TestFirstReadsWhatChanged(t *testing.T) {
	c := newChanging(t)
	for _, step := range []struct {
		what   string
		change func()
		want   [3]string
		reads  []string
	}{
		{"the first time", func() {}, [3]string{"a/a:1", "n/n:1", "o/o:1"}, []string{name, neighbour, name}},
		{"nothing changed", func() {}, [3]string{"a/a:1", "n/n:1", "o/o:1"}, nil},
		{"another record", func() { c.insert(c.ctx, "registry.test/new:1", "x/x:1") }, [3]string{"a/a:1", "n/n:1", "o/o:1"}, nil},
		{"its label", func() { c.update(c.ctx, neighbour, "m/m:1") }, [3]string{"a/a:1", "m/m:1", "o/o:1"}, []string{neighbour}},
		{"at the same time", func() { c.update(c.always, name, "b/b:1") }, [3]string{"b/b:1", "m/m:1", "o/o:1"}, []string{name}},
		{"and back", func() { c.update(c.always, name, "a/a:1") }, [3]string{"a/a:1", "m/m:1", "o/o:1"}, []string{name}},
		{"a comparison", func() { c.compare("c/c:1") }, [3]string{"c/c:1", "m/m:1", "o/o:1"}, []string{name}},
		{"removed", func() { c.remove(neighbour) }, [3]string{"c/c:1", "", "o/o:1"}, []string{neighbour}},
		{"made again", func() { c.insert(c.ctx, neighbour, "n/n:1") }, [3]string{"c/c:1", "n/n:1", "o/o:1"}, []string{neighbour}},
		{"in the other namespace", func() { c.update(c.other, name, "p/p:1") }, [3]string{"c/c:1", "n/n:1", "p/p:1"}, []string{name}},
	} {
		step.change()
		c.reads.gets = nil // the writer's
		if diff := cmp.Diff(step.want, c.sources()); diff != "" {
			t.Errorf("%s: sources (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.reads, c.reads.gets); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", step.what, diff)
		}
	}
}

// A record with a mark that is not yet written is not remembered.
func TestMarkedRecordsAreNotRemembered(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	if err := s.Close(); err != nil { // no mark is ever written
		t.Fatal(err)
	}
	for i := range 3 {
		want := fmt.Sprintf("mirror-%d.test", i)
		s.MarkVerified(ctx, one.Digest, Verified{At: noon.Add(time.Duration(i) * time.Hour), By: want}, nil, name)
		found, err := s.First(ctx, [][]string{{name}})
		if err != nil || found[0] == nil || found[0].Verified.By != want {
			t.Errorf("want %s: %v, %v", want, found, err)
		}
	}
}

// What is remembered has a bound.
func TestDecodedIsBounded(t *testing.T) {
	d := newDecoded()
	for i := range 2 * maxDecoded {
		d.add(recordName{"k8s.io", fmt.Sprint(i)}, 1, &Record{})
	}
	if n := d.byRecord.Len(); n != maxDecoded {
		t.Errorf("%d records are remembered, want %d", n, maxDecoded)
	}
	if _, ok := d.get(recordName{"k8s.io", fmt.Sprint(2*maxDecoded - 1)}, 1); !ok {
		t.Error("the last one is forgotten")
	}
	if _, ok := d.get(recordName{"k8s.io", fmt.Sprint(2*maxDecoded - 1)}, 2); ok {
		t.Error("a record with another sum is the same")
	}
}
