// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"time"
)

// patience is for how long pulls wait for the work of others.
type patience struct {
	until   time.Time
	hurried context.Context
}

type patienceKey struct{}

// WithPatience returns a context for pulls that wait for the work of other repositories until then (zero: for [Config.Patience], from
// when they first wait), and once hurry is called for nobody who has not been at it for a tenth of [Config.Patience], but for downloads
// from their own source; nor for longer than those of the context that it is made of. hurry must be called.
func WithPatience(ctx context.Context, until time.Time) (_ context.Context, hurry func()) {
	p := patienceOf(ctx)
	if p.until.IsZero() || !until.IsZero() && until.Before(p.until) {
		p.until = until
	}
	p.hurried, hurry = context.WithCancel(p.hurried)
	return context.WithValue(ctx, patienceKey{}, p), hurry
}

// PatienceOf returns until when the pulls of a context wait for other repositories, zero if nothing says so, and
// what is closed once they are hurried. See WithPatience.
func PatienceOf(ctx context.Context) (until time.Time, hurried <-chan struct{}) {
	p := patienceOf(ctx)
	return p.until, p.hurried.Done()
}

func patienceOf(ctx context.Context) patience {
	if p, ok := ctx.Value(patienceKey{}).(patience); ok {
		return p
	}
	return patience{hurried: context.Background()}
}
