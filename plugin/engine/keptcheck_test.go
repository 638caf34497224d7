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

// Delivered is what the comparison, or the check, has read.
func (mirrorSession) Delivered(digest.Digest) bool { return true }

// The registry confirms an image, of which every byte is compared then. A mirror confirms it to
// another rule meanwhile, which does not take the registry's check away from those who believe that alone.
func TestMirrorsCheckDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := cachedImage(first, time.Now().Add(-2*time.Hour))
		record.Access[bob] = record.Access[alice]
		c := newComparison(t, record, "resolve_from = \"Origin\"\nmax_stale = \"1h\"")
		c.engine.Registry = mirrorFirst{c.node}
		c.other.Caller = bob
		c.endBesideAMirror(t)
		c.fail()
		if o, err := c.engine.Ensure(c.ctx, c.under); o.Kind != UsedCached {
			t.Errorf("two minutes after the registry has confirmed it, for who believes it alone: %s (%s) %v", o.Kind, o.Reason, err)
		}
	})
}

// Nor is the registry's first proof for a caller lost with a mirror's next word.
func TestMirrorsProofDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := cachedImage(first, time.Now().Add(-2*time.Hour))
		record.Verified.By = "mirror.test"
		record.Access[alice] = store.Proof{At: record.Verified.At, By: "mirror.test"}
		c := newComparison(t, record, "resolve_from = \"Origin\"\nhints = \"Allow\"")
		c.engine.Registry = mirrorFirst{c.node}
		c.endBesideAMirror(t)
		time.Sleep(time.Minute)
		c.wantConfirmed(t, "mirror.test")
		c.fail()
		if o, err := c.engine.Ensure(c.ctx, c.under); o.Kind != UsedCached {
			t.Errorf("alice, whom the registry has proved, for who believes it alone: %s (%s) %v", o.Kind, o.Reason, err)
		}
	})
}

// endBesideAMirror has the registry confirm what is compared, and a mirror the same to the other request.
func (c *comparison) endBesideAMirror(t *testing.T) {
	t.Helper()
	end := c.begin(t)
	c.wantConfirmed(t, "mirror.test")
	if o := end(); o.Kind != Pulled || o.Host != "registry.test" {
		t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
	}
	if _, err := c.store.Get(c.ctx, name); err != nil {
		t.Fatal(err)
	}
}

// A comparison takes long. The registry says yes to the same caller in another request meanwhile: that proof
// lasts for access_ttl from then on, and not from the older yes.
func TestReverifyKeepsALaterProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComparison(t, cachedImage(first, time.Now()), `access_ttl = "150s"`, `access_ttl = "150s"`)
		end := c.begin(t)
		c.wantConfirmed(t, "registry.test") // after a minute
		if o := end(); o.Kind != Pulled {
			t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
		}
		r, err := c.store.Get(c.ctx, name)
		if age := time.Since(r.Access[alice].At); err != nil || age != time.Minute {
			t.Errorf("the last proof is %s old, and the last check %s, %v", age, time.Since(r.Verified.At), err)
		}
		c.fail()
		time.Sleep(time.Minute)
		if o, err := c.engine.Ensure(c.ctx, c.other); o.Kind != UsedCached {
			t.Errorf("two minutes after the registry has said yes, under access_ttl = 150s: %s (%s) %v", o.Kind, o.Reason, err)
		}
	})
}

// Nor does the registry's older answer take the mirror's later check, or a proof that came with it, away
// from those who believe mirrors.
func TestMirrorsLaterWordOutlastsAComparison(t *testing.T) {
	for _, bound := range []string{`max_stale = "150s"`, `access_ttl = "150s"`} {
		synctest.Test(t, func(t *testing.T) {
			record := cachedImage(first, time.Now())
			record.Verified.By = "mirror.test"
			record.Access[alice] = store.Proof{At: record.Verified.At, By: "mirror.test"}
			c := newComparison(t, record, "resolve_from = \"Origin\"", bound)
			c.engine.Registry = mirrorFirst{c.node}
			end := c.begin(t)
			c.wantConfirmed(t, "mirror.test") // after a minute
			if o := end(); o.Kind != Pulled || o.Host != "registry.test" {
				t.Fatalf("the comparison: %s (%s) %v", o.Kind, o.Reason, o.Err)
			}
			c.fail()
			time.Sleep(time.Minute)
			if o, err := c.engine.Ensure(c.ctx, c.other); o.Kind != UsedCached {
				t.Errorf("two minutes after a mirror has said yes, under %s: %s (%s) %v", bound, o.Kind, o.Reason, err)
			}
			if o, err := c.engine.Ensure(c.ctx, c.under); o.Kind != UsedCached {
				t.Errorf("and for who believes the registry alone: %s (%s) %v", o.Kind, o.Reason, err)
			}
		})
	}
}
