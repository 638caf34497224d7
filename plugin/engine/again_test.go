// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// refusingOrigin has a mirror behind it, which answers each check.
type refusingOrigin struct{ Registry }

func (r refusingOrigin) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.Registry.Open(ctx, q)
	return behindOrigin{s}, err
}

type behindOrigin struct{ resolver.Session }

func (s behindOrigin) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	r, err := s.Session.Resolve(ctx, timeout)
	r.Host, r.Attempts = "mirror.test", []resolver.Attempt{{Host: "registry.test", Origin: true, Class: failure.Forbidden, Refused: true}}
	return r, err
}

// The proof of a check that is made in the place of another one lasts: what the registry
// refused before the mirror gave it ends no proof, as in a single check.
func TestProofOfASecondCheck(t *testing.T) {
	for _, twice := range []bool{false, true} {
		n := &node{}
		e := budgeted(n, "1")
		e.Registry = refusingOrigin{n}
		e.Now = func() time.Time { return now }
		n.record.Access = nil
		if twice {
			e.Started = now // nothing is left
			n.record = cachedImage(first, now)
			n.onOpen = func() { n.onOpen = nil; n.record.Access = nil }
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Unchanged || n.checks != 1 || len(n.proved) == 0 || len(n.revoked) != 1 {
			t.Errorf("twice %t: %s, %v, %d checks, proved %v, revoked %v", twice, o.Kind, err, n.checks, n.proved, n.revoked)
		}
	}
}
