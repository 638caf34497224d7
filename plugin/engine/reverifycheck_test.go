// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
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
func storeOf(t *testing.T, state store.State) (context.Context, *store.Store) {
	t.Helper()
	db := openDB(t)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	records := metadata.NewImageStore(db)
	for _, n := range []string{name, repository + "@" + first.Digest.String(), imageID(first).String()} {
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
	began := time.Now()
	n := &node{remote: first, inNeed: inNeed, record: cachedImage(first, began.Add(-2*time.Hour))}
	state := n.record.State
	state.PullSource = "elsewhere.test/app:1"
	state.Access[bob] = state.Access[alice]
	ctx, s := storeOf(t, state)
	comparing, compared := make(chan struct{}), make(chan struct{})
	n.onVerify = func() { close(comparing); <-compared }
	e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"a\"]\npolicy = \"IfDigestChanged\"\n" +
		"allowed_sources = [\"registry.test\", \"mirror.test\"]\nresolve_from = \"OriginThenMirrors\"\n" +
		rule(`policy = "IfDigestChanged"`, `max_stale = "1h"`, `resolve_from = "OriginThenMirrors"`))
	e.Records, e.Marks, e.Proofs, e.Observe, e.Now = s, s, s, nil, time.Now
	a, b := n.request(nil), n.request(nil)
	a.Namespace, a.PodNamespace = "a", "a"
	b.Namespace, b.PodNamespace, b.Caller = "b", "b", bob

	ended := make(chan Outcome, 1)
	go func() {
		o, _ := e.Ensure(ctx, a)
		ended <- o
	}()
	<-comparing
	time.Sleep(time.Minute)
	n.mu.Lock()
	n.inNeed = false // the registry is back
	n.mu.Unlock()
	if o, err := e.Ensure(ctx, b); o.Kind != Unchanged || o.Host != "registry.test" {
		t.Fatalf("the other request: %s (%s) %v", o.Kind, o.Reason, err)
	}
	time.Sleep(time.Minute)
	close(compared)
	if o := <-ended; o.Kind != Pulled {
		t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
	}
	r, err := s.Get(ctx, name)
	if err != nil || time.Since(r.Verified.At) != time.Minute || !r.Stale.Since.IsZero() || r.MirrorDigest != "" || !r.Compared {
		t.Errorf("the record says %+v, %v", r.State, err)
	}
	n.mu.Lock()
	n.checkFails = failure.Unreachable
	n.mu.Unlock()
	if o, err := e.Ensure(ctx, b); o.Kind != UsedCached {
		t.Errorf("two minutes after the registry has confirmed it: %s (%s) %v", o.Kind, o.Reason, err)
	}
}
