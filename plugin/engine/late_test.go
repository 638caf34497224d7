// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// max_stale counts when the fallback happens: a host that serves a layer drop by
// drop for hours, and then breaks off, makes no image younger.
func TestMaxStaleCountsTheTimeOfTheFailure(t *testing.T) {
	for phase, takes := range map[string]time.Duration{checking: 90 * time.Second, pulling: 6 * time.Hour} {
		clock := now
		n := &node{record: restricted(now, alice), remote: second}
		n.record.Verified.At = now.Add(-59 * time.Minute)
		later := func() { clock = clock.Add(takes) }
		if phase == pulling {
			n.pullFails, n.onPull = failure.Unreachable, later
		} else {
			n.checkFails, n.onCheck = failure.Unreachable, later
		}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `max_stale = "1h"`, `verify_timeout = "2m"`))
		e.Now = func() time.Time { return clock }
		if o, err := e.Ensure(t.Context(), n.request(nil)); err == nil || o.Reason != ReasonMaxStale {
			t.Errorf("%s: %s (%s), %v", phase, o.Kind, o.Reason, err)
		}
	}
}

// storesAndFails is CRI whose context ends between the transfer and its own
// records.
type storesAndFails struct{ *node }

func (s storesAndFails) Pull(ctx context.Context, plan *transfer.Plan) (string, error) {
	if _, err := s.node.Pull(ctx, plan); err != nil {
		return "", err
	}
	return "", errTest
}

// A pull that fails after its record was written leaves no proof of a caller who
// was denied meanwhile.
func TestFailedPullLeavesNoDeniedProof(t *testing.T) {
	n := &node{remote: first}
	e := n.engine(rule(`policy = "IfNotPresent"`))
	req := n.request(nil)
	req.Runtime = storesAndFails{n}
	n.onPull = func() {
		if err := e.revokeIfDenied(t.Context(), task{Request: req}, nil, []store.Refusal{{Host: "registry.test", Origin: true}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Ensure(t.Context(), req); err == nil {
		t.Fatal("the pull succeeded")
	}
	if _, proved := n.record.Access[alice]; proved {
		t.Errorf("the record says %+v", n.record.State)
	}
}

// completing notes the state that an image is completed with.
type completing struct {
	*node
	unpacks func(context.Context)
	state   store.State
}

func (c *completing) Complete(ctx context.Context, _ ocispec.Descriptor, state func() store.State) error {
	if c.unpacks != nil {
		c.unpacks(ctx)
	}
	c.state = state()
	return nil
}

// An image is completed with the proofs that hold then.
func TestCompletingBringsNoProofBack(t *testing.T) {
	n := &completing{node: &node{record: restricted(now, alice, bob), remote: first, packed: true}}
	n.onCheck = func() { _ = n.Revoke(t.Context(), repository, []store.Fingerprint{bob}) }
	req := n.request(nil)
	req.Runtime = n
	if _, err := n.engine(rule(`policy = "Always"`)).Ensure(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, ok := n.state.Access[bob]; ok || len(n.state.Access) == 0 {
		t.Errorf("completed with %v", n.state.Access)
	}
}

// Nor with proofs that ended while it was unpacked.
func TestCompletingTakesTime(t *testing.T) {
	n := &completing{node: &node{record: restricted(now, alice, bob), packed: true}}
	n.unpacks = func(ctx context.Context) { _ = n.Revoke(ctx, repository, []store.Fingerprint{bob}) }
	req := n.request(nil)
	req.Runtime = n
	if o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req); err != nil || o.Kind != Present {
		t.Fatalf("got %s, %v", o.Kind, err)
	}
	if _, ok := n.state.Access[bob]; ok || len(n.state.Access) != 1 {
		t.Errorf("completed with %v", n.state.Access)
	}
}
