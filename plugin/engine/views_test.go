// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// views is a registry that shows callers with credentials another image by the same tag, as virtual repositories do.
type views struct {
	*node
	forBob ocispec.Descriptor
}

func (v views) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := v.node.Open(ctx, q)
	return viewSession{s, v, q.Credentials != nil}, err
}

type viewSession struct {
	resolver.Session
	views views
	bob   bool
}

func (s viewSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	r, err := s.Session.Resolve(ctx, timeout)
	if s.bob {
		r.Descriptor = s.views.forBob
	}
	return r, err
}

// A registry shows bob another image by the same tag than alice: her pulls come to their end all the same,
// though what he is told is acted upon all the time.
func TestViewsOfOneTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now()), pullTakes: 10 * time.Second}
		n.record.Access[bob] = store.Proof{At: time.Now(), By: "registry.test"}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		e.Registry = views{n, first}
		e.Now, e.Observe = time.Now, nil
		done := make(chan bool)
		go func() { // bob's containers are restarted
			for {
				select {
				case <-done:
					return
				case <-time.After(4 * time.Second):
				}
				req := n.request(nil)
				req.Caller, req.PodNamespace = bob, "bob"
				req.Credentials = func(string) (string, string, error) { return "bob", "secret", nil }
				_, _ = e.Ensure(t.Context(), req)
			}
		}()
		for range 3 {
			if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Digest != second.Digest {
				t.Errorf("alice: %s (%s) %v, after %d pulls", o.Kind, o.Reason, err, n.pulls)
			}
		}
		close(done)
	})
}
