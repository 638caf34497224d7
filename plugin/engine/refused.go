// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// refusalsAmong are the refusals of the caller among attempts.
func refusalsAmong(attempts []resolver.Attempt) (refusals []store.Refusal) {
	for _, a := range attempts {
		if a.Refused {
			refusals = append(refusals, store.Refusal{Host: a.Host, Origin: a.Origin || a.Authority, Spelled: a.Spelled})
		}
	}
	return refusals
}

// refusalsBefore are those before the answer of another host. The last word of a host
// counts: its own yes makes up for its refusal, which it may have given by another path. That of
// another host does not, be it the registry's: it is a proof of its own, or none.
func refusalsBefore(r resolver.Resolution) []store.Refusal {
	by := store.Proof{By: r.Host}
	return slices.DeleteFunc(refusalsAmong(r.Attempts), func(no store.Refusal) bool { return by.GivenBy(no.Host) })
}

// endRefused takes proofs away where hosts refused the caller content that another host
// then had, by their last word about it. With the request's own watches its answer is no
// proof as long as that is their last word; with nil it is none any more.
func (e *Engine) endRefused(ctx context.Context, t task, own denialWatches, source resolver.Source) error {
	return e.revokeIfDenied(ctx, t, own, refusalsAmong(source.Refusals()))
}
