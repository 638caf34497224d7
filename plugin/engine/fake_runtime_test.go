// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Runtime.

func (n *node) ImageID(ctx context.Context) (string, error) {
	if n.onLook != nil {
		n.onLook(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := errors.Join(n.imageIDErr, ctx.Err()); err != nil || n.record == nil {
		return "", err
	}
	if n.lag != 0 {
		n.lag--
		return imageID(image("before")).String(), nil
	}
	return imageID(n.record.Target).String(), nil
}

func (n *node) Pull(ctx context.Context, plan *pwtransfer.Plan) (string, error) {
	n.mu.Lock()
	n.pulls++
	hook := n.onPull
	n.mu.Unlock()
	if hook != nil {
		hook()
	}
	select {
	case <-time.After(n.pullTakes):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if n.pullErr != nil {
		return "", n.pullErr
	}
	if n.pullFails != failure.None {
		return "", errTest
	}
	_, target, err := plan.Source.Resolve(ctx)
	if err != nil {
		return "", err
	}
	if n.converts != nil {
		target = *n.converts
	}
	if err := plan.Verify(ctx, target); err != nil {
		return "", err
	}
	compared, err := n.compare(ctx, plan)
	if err != nil {
		return "", err
	}
	return imageID(target).String(), plan.Write(ctx, func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		state := plan.State(target.Digest, store.State{})
		state.HasLayers = !n.lacksLayers || plan.Compare != nil
		if n.onStore != nil {
			n.onStore(&state)
		}
		state = pwtransfer.WithCompared(state, compared)
		n.record = &store.Record{Name: name, Target: target, State: state}
		n.unrunnable = false
		return nil
	})
}

// compare has the plan compare what is to be stored with those sources.
func (n *node) compare(ctx context.Context, plan *pwtransfer.Plan) (provenance.Provenance, error) {
	sources := store.State{HasLayers: !n.lacksLayers}
	if n.onStore != nil {
		n.onStore(&sources)
	}
	if plan.Compare == nil {
		return provenance.Provenance{}, nil
	}
	return plan.Compare(ctx, sources, func(digest.Digest) bool { return false })
}

func (n *node) Complete(_ context.Context, target ocispec.Descriptor, _ *pwtransfer.Plan) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.completed = append(n.completed, target.Digest)
	if n.onStore != nil {
		n.onStore(&n.record.State)
	}
	return nil
}

// laidOver is a state with the mark of a pull, which leaves its pin and its sources alone.
func laidOver(before, mark store.State) store.State {
	mark.Pin, mark.PulledAt, mark.PullSource, mark.ContentSources = before.Pin, before.PulledAt, before.PullSource, before.ContentSources
	mark.MoreSources, mark.UnknownSources, mark.Compared, mark.HasLayers = before.MoreSources, before.UnknownSources, before.Compared, before.HasLayers
	return mark
}

// WriteSources implements Records.
func (n *node) WriteSources(_ context.Context, target digest.Digest, sources func(store.State) store.State, _ ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.record != nil && n.record.Target.Digest == target {
		n.record.State = sources(n.record.State)
	}
	return nil
}

// last returns the one outcome that was observed.
func (n *node) last(t *testing.T) Outcome {
	t.Helper()
	if len(n.outcomes) != 1 {
		t.Fatalf("%d outcomes were observed, want one", len(n.outcomes))
	}
	return n.outcomes[0]
}
