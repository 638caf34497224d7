// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// storeOf is a store over a real database, with the first image under all of its names.
func storeOf(t *testing.T, state store.State, tags ...string) (context.Context, *store.Store) {
	t.Helper()
	db := openDB(t)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	records := metadata.NewImageStore(db)
	for _, n := range append(tags, name, repository+"@"+first.Digest.String(), imageID(first).String()) {
		img := images.Image{Name: n, Target: first}
		if n != imageID(first).String() {
			img.Labels = map[string]string{}
			for k, v := range state.Labels(n, first.Digest) {
				if v != "" {
					img.Labels[k] = v
				}
			}
		}
		if _, err := records.Create(ctx, img); err != nil {
			t.Fatal(err)
		}
	}
	s := store.New(db, records)
	t.Cleanup(func() { _ = s.Close() })
	return ctx, s
}

// comparison is one of an image from elsewhere, under allowed_sources, by a request of the namespace a;
// the other request is of the namespace b, and has no such list.
type comparison struct {
	node         *node
	engine       *Engine
	ctx          context.Context //nolint:containedctx // of the test
	store        *store.Store
	under, other Request

	comparing, compared chan struct{}
}

// newComparison prepares one, with a directive for the request that compares, and those for others.
func newComparison(t *testing.T, record *store.Record, compares string, others ...string) *comparison {
	t.Helper()
	n := &node{remote: first, record: record}
	state := record.State
	state.PullSource = "elsewhere.test/app:1"
	c := &comparison{node: n, comparing: make(chan struct{}), compared: make(chan struct{})}
	c.ctx, c.store = storeOf(t, state)
	n.onVerify = func() { close(c.comparing); <-c.compared }
	c.engine = n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"a\"]\npolicy = \"IfDigestChanged\"\n" +
		"allowed_sources = [\"registry.test\", \"mirror.test\"]\n" + compares + "\n" +
		rule(append([]string{`policy = "IfDigestChanged"`}, others...)...))
	c.engine.Records, c.engine.Marks, c.engine.Proofs, c.engine.Observe, c.engine.Now = c.store, c.store, c.store, nil, time.Now
	c.under, c.other = n.request(nil), n.request(nil)
	c.under.Namespace, c.under.PodNamespace = "a", "a"
	c.other.Namespace, c.other.PodNamespace = "b", "b"
	return c
}

// begin begins it a minute ago. It ends a minute after end is called.
func (c *comparison) begin(t *testing.T) (end func() Outcome) {
	t.Helper()
	ended := make(chan Outcome, 1)
	go func() {
		o, _ := c.engine.Ensure(c.ctx, c.under)
		ended <- o
	}()
	<-c.comparing
	time.Sleep(time.Minute)
	return func() Outcome {
		time.Sleep(time.Minute)
		close(c.compared)
		return <-ended
	}
}

// wantConfirmed has the other request answered by that host.
func (c *comparison) wantConfirmed(t *testing.T, host string) {
	t.Helper()
	if o, err := c.engine.Ensure(c.ctx, c.other); o.Kind != Unchanged || o.Host != host {
		t.Fatalf("the other request: %s (%s) by %s %v", o.Kind, o.Reason, o.Host, err)
	}
}

// fail has all hosts fail from now on.
func (c *comparison) fail() {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	c.node.checkFails = failure.Unreachable
}

// A comparison takes long. The registry confirms the image to another request meanwhile: the older
// answer, be it that of a mirror in its place, is not laid over that check.
func TestReverifyKeepsALaterCheck(t *testing.T) {
	for what, inNeed := range map[string]bool{"by the registry's word": false, "by a mirror's in its place": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { reverifyBesideACheck(t, inNeed) })
		})
	}
}

func reverifyBesideACheck(t *testing.T, inNeed bool) {
	record := cachedImage(first, time.Now().Add(-2*time.Hour))
	record.Access[bob] = record.Access[alice]
	c := newComparison(t, record,
		`resolve_from = "OriginThenMirrors"`, `max_stale = "1h"`, `resolve_from = "OriginThenMirrors"`)
	c.other.Caller, c.node.inNeed = bob, inNeed
	end := c.begin(t)
	c.node.mu.Lock()
	c.node.inNeed = false // the registry is back
	c.node.mu.Unlock()
	c.wantConfirmed(t, "registry.test")
	if o := end(); o.Kind != Pulled {
		t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
	}
	r, err := c.store.Get(c.ctx, name)
	if err != nil || time.Since(r.Verified.At) != time.Minute || !r.Stale.Since.IsZero() || r.MirrorDigest != "" || !r.Compared {
		t.Errorf("the record says %+v, %v", r.State, err)
	}
	c.fail()
	if o, err := c.engine.Ensure(c.ctx, c.other); o.Kind != UsedCached {
		t.Errorf("two minutes after the registry has confirmed it: %s (%s) %v", o.Kind, o.Reason, err)
	}
}

// A comparison is written before the request ends. Of the hosts that a record names then it takes those away alone
// that were there before: from others a pull has fetched some of the image meanwhile.
func TestReverifyKeepsHostsOfAPullMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		canonical := repository + "@" + first.Digest.String()
		c := newComparison(t, cachedImage(first, time.Now()), "")
		c.engine.Marks = &drySide{} // none of what waits is written
		end := c.begin(t)
		err := c.store.WriteSources(c.ctx, first.Digest, func(s store.State) store.State { // by another tag
			s.ContentSources = []string{"elsewhere.test", "bad.test"}
			return s
		}, canonical)
		if err != nil {
			t.Fatal(err)
		}
		if o := end(); o.Kind != Pulled || o.Source != name {
			t.Fatalf("the comparison: %s (%s) from %q, %v", o.Kind, o.Reason, o.Source, o.Err)
		}
		for n, want := range map[string][]string{name: nil, canonical: {"registry.test", "bad.test"}} {
			r, err := c.store.Get(c.ctx, n)
			if err != nil || !r.Compared || r.PullSource != name || !slices.Equal(r.ContentSources, want) || !r.PulledAt.Equal(time.Now()) {
				t.Errorf("%s says %+v, %v", n, r.State, err)
			}
		}
	})
}
