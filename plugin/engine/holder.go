// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// holder is whose proofs let the task reuse an image, and whose proof a yes to
// its caller is; "" for nobody's. The directive access_identity says whether that
// is the caller, or all pods of its namespace. What is asked of registries goes by
// the caller alone.
func (t *task) holder() store.Fingerprint {
	if t.directives.AccessIdentity == policy.Namespace {
		return t.PodNamespace
	}
	return t.Caller
}

// provedBy lists the holders for whom an answer can be a proof. A host that saw no
// credentials would have answered anybody, which says nothing yet of the rest of the
// image, nor of who was let in for that: see answer.opened. A caller without credentials proves for
// everybody, or for nobody; one whose credentials cannot be told apart proves nothing of its
// own.
func (t *task) provedBy(anonymous bool) (holders []store.Fingerprint) {
	if t.Caller == store.Anonymous {
		return []store.Fingerprint{store.Anonymous}
	}
	if t.Caller != "" && t.holder() != "" {
		holders = append(holders, t.holder())
	}
	if anonymous {
		holders = append(holders, store.Anonymous)
	}
	return holders
}

// provable are all holders for whom the task may write a proof.
func (t *task) provable() []store.Fingerprint { return t.provedBy(true) }

// refused are all holders whose proofs a refusal of the task's caller ends: the
// caller itself and the namespace of its pod, whichever of the two the directive
// has. So no proof comes back when a rule changes.
func (t *task) refused() []store.Fingerprint {
	holders := []store.Fingerprint{t.Caller, t.PodNamespace}
	return slices.DeleteFunc(holders, func(f store.Fingerprint) bool { return f == "" })
}

// watchDenials looks out for denials, from now on, of those for whom the task may
// write a proof, and of the one by whose proof it may have an image: a pod without credentials uses
// that of its namespace. The watches must be ended.
func (e *Engine) watchDenials(t task) (all denialWatches) {
	holders := append(t.provable(), t.holder())
	slices.Sort(holders)
	for _, holder := range slices.Compact(holders) {
		if holder != "" {
			all = append(all, e.denials.watch(t.denialKey(holder)))
		}
	}
	return all
}

func (t *task) denialKey(holder store.Fingerprint) denialKey {
	return denialKey{registryname.Repository(t.Repository), holder}
}

// revokeIfDenied takes proofs away where hosts refused the caller, also from
// requests that are under way, but not from that with these watches: what it was
// told before still counts for it; nil for none. The error is one of writing that.
func (e *Engine) revokeIfDenied(ctx context.Context, t task, own denialWatches, refusals []store.Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	holders := t.refused()
	for _, holder := range holders {
		if w := own.of(holder); w != nil {
			w.deny(refusals...)
		} else {
			e.denials.deny(t.denialKey(holder), refusals...)
		}
	}
	return e.revoke(ctx, t, holders, refusals)
}

// revoke takes away the proofs of the holders that the refusals end. The request
// does not end before that is written, even if its caller has left.
func (e *Engine) revoke(ctx context.Context, t task, holders []store.Fingerprint, refusals []store.Refusal) error {
	if len(holders) == 0 {
		return nil
	}
	if err := e.Proofs.Revoke(context.WithoutCancel(ctx), t.Repository, holders, refusals...); err != nil {
		return fmt.Errorf("take back a proof of access: %w", err)
	}
	return nil
}
