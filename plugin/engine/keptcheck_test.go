// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// mirrorFirst is a registry with a mirror that answers wherever the order has mirrors first.
type mirrorFirst struct{ *node }

func (r mirrorFirst) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.node.Open(ctx, q)
	return mirrorSession{s, q}, err
}

type mirrorSession struct {
	resolver.Session
	q resolver.Query
}

func (s mirrorSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	res, err := s.Session.Resolve(ctx, timeout)
	if s.q.Order == resolver.ListedOrder {
		res.Host = "mirror.test"
	}
	return res, err
}

// The registry confirms an image, of which every byte is compared then. A mirror confirms it to another rule meanwhile. That
// takes the registry's check not away from those who believe the registry alone.
func TestMirrorsCheckDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := &node{remote: first, record: cachedImage(first, began.Add(-2*time.Hour))}
		state := n.record.State
		state.PullSource = "elsewhere.test/app:1"
		state.Access[bob] = state.Access[alice]
		ctx, s := storeOf(t, state)
		comparing, compared := make(chan struct{}), make(chan struct{})
		n.onVerify = func() { close(comparing); <-compared }
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"a\"]\npolicy = \"IfDigestChanged\"\n" +
			"allowed_sources = [\"registry.test\", \"mirror.test\"]\nresolve_from = \"Origin\"\nmax_stale = \"1h\"\n" +
			rule(`policy = "IfDigestChanged"`))
		e.Registry = mirrorFirst{n}
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
		if o, err := e.Ensure(ctx, b); o.Kind != Unchanged || o.Host != "mirror.test" {
			t.Fatalf("the other request: %s (%s) by %s %v", o.Kind, o.Reason, o.Host, err)
		}
		time.Sleep(time.Minute)
		close(compared)
		if o := <-ended; o.Kind != Pulled || o.Host != "registry.test" {
			t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
		}
		r, err := s.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v\n%+v\n%+v", r.Verified, r.Access, r.Earlier)
		n.mu.Lock()
		n.checkFails = failure.Unreachable
		n.mu.Unlock()
		if o, err := e.Ensure(ctx, a); o.Kind != UsedCached {
			t.Errorf("two minutes after the registry has confirmed it, for who believes it alone: %s (%s) %v", o.Kind, o.Reason, err)
		}
		_ = store.Anonymous
	})
}

// As above: the registry's first proof for alice is not lost with a mirror's next word.
func TestMirrorsProofDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := &node{remote: first, record: cachedImage(first, began.Add(-2*time.Hour))}
		state := n.record.State
		state.PullSource = "elsewhere.test/app:1"
		state.Verified.By = "mirror.test"
		state.Access[alice] = store.Proof{At: began.Add(-2 * time.Hour), By: "mirror.test"}
		ctx, s := storeOf(t, state)
		comparing, compared := make(chan struct{}), make(chan struct{})
		n.onVerify = func() { close(comparing); <-compared }
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"a\"]\npolicy = \"IfDigestChanged\"\n" +
			"allowed_sources = [\"registry.test\", \"mirror.test\"]\nresolve_from = \"Origin\"\nhints = \"Allow\"\n" +
			rule(`policy = "IfDigestChanged"`))
		e.Registry = mirrorFirst{n}
		e.Records, e.Marks, e.Proofs, e.Observe, e.Now = s, s, s, nil, time.Now
		a, b := n.request(nil), n.request(nil)
		a.Namespace, a.PodNamespace = "a", "a"
		b.Namespace, b.PodNamespace = "b", "b"
		ended := make(chan Outcome, 1)
		go func() {
			o, _ := e.Ensure(ctx, a)
			ended <- o
		}()
		<-comparing
		time.Sleep(time.Minute)
		if o, err := e.Ensure(ctx, b); o.Kind != Unchanged || o.Host != "mirror.test" {
			t.Fatalf("the other request: %s (%s) by %s %v", o.Kind, o.Reason, o.Host, err)
		}
		time.Sleep(time.Minute)
		close(compared)
		if o := <-ended; o.Kind != Pulled || o.Host != "registry.test" {
			t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
		}
		r, _ := s.Get(ctx, name)
		t.Logf("%+v\n%+v\n%+v", r.Verified, r.Access, r.Earlier)
		time.Sleep(time.Minute)
		if o, err := e.Ensure(ctx, b); o.Kind != Unchanged || o.Host != "mirror.test" {
			t.Fatalf("the other request: %s (%s) by %s %v", o.Kind, o.Reason, o.Host, err)
		}
		r, _ = s.Get(ctx, name)
		t.Logf("%+v\n%+v\n%+v", r.Verified, r.Access, r.Earlier)
		n.mu.Lock()
		n.checkFails = failure.Unreachable
		n.mu.Unlock()
		if o, err := e.Ensure(ctx, a); o.Kind != UsedCached {
			t.Errorf("alice, whom the registry has proved, for who believes it alone: %s (%s) %v", o.Kind, o.Reason, err)
		}
	})
}

// Delivered is what the comparison, or the check, has read.
func (mirrorSession) Delivered(digest.Digest) bool { return true }
