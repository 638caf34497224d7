// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// slowRegistry takes 3 seconds for each check, and tells no more than the digest of an image that is known.
type slowRegistry struct {
	*node
	during func()
}

func (r slowRegistry) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.node.Open(ctx, q)
	return slowSession{s, r, q}, err
}

type slowSession struct {
	resolver.Session
	r slowRegistry
	q resolver.Query
}

func (s slowSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	const takes = 3 * time.Second
	time.Sleep(min(takes, timeout))
	if timeout < takes {
		return resolver.Resolution{}, failureOf(name, failure.Unreachable)
	}
	res, err := s.Session.Resolve(ctx, timeout)
	if err == nil && s.q.Known == res.Descriptor.Digest {
		res.Descriptor.Size, res.Descriptor.MediaType = 0, ""
	}
	s.r.during()
	return res, err
}

// An image that is removed while a registry confirms it is pulled, also where the registry takes 3s of
// verify_timeout's 5s for each answer.
func TestRemovedWhileASlowRegistryConfirms(t *testing.T) {
	for _, p := range []string{"IfDigestChanged", "Always"} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: first, record: cachedImage(first, time.Now().Add(-2*time.Hour))}
			e := n.engine(rule(`policy = "`+p+`"`, `verify_timeout = "5s"`))
			e.Now, e.Observe = time.Now, nil
			e.Registry = slowRegistry{n, func() { n.mu.Lock(); n.record = nil; n.mu.Unlock() }}
			o, err := e.Ensure(t.Context(), n.request(nil))
			if o.Kind != Pulled {
				t.Errorf("%s: %s (%s) after %s: %v", p, o.Kind, o.Reason, o.Elapsed, err)
			}
		})
	}
}
