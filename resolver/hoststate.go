// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// HostState is one of the hosts for a reference, and what is known of it.
type HostState struct {
	Host    string // as attempts and resolutions have it
	Origin  bool   // it is the registry that the name says
	Spelled string // the other spelling of that name by which it is asked; "" = its one

	// Resolve and Pull are its capabilities: it may say which digest a tag has, and
	// serve content.
	Resolve, Pull bool

	// Allowed says that the query lets it be asked for anything.
	Allowed bool

	// Asked says that a check of the query asks it, unless a host before it answers.
	Asked bool

	// Trouble is what speaks against asking it now; nil where nothing is known.
	Trouble *health.State
}

// Hosts lists the hosts for a reference in their order. It asks none of them, and what
// is known of them stays as it is. timeout is the time that a check would have: a host
// that was too slow for less may be asked by it. The error is that of [Resolver.Open]
// for a configuration that is not right.
func (r *Resolver) Hosts(ctx context.Context, q Query, timeout time.Duration) ([]HostState, error) {
	s, all, err := r.prepare(ctx, q)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	asked, _ := s.candidates()
	states := make([]HostState, len(all))
	for i, h := range all {
		states[i] = HostState{
			Host: h.By(), Origin: h.Origin, Spelled: h.spelled,
			Resolve: h.Capabilities.Has(docker.HostCapabilityResolve), Pull: h.Capabilities.Has(docker.HostCapabilityPull),
			Allowed: slices.Contains(s.hosts, h), Asked: slices.Contains(asked, h),
			Trouble: h.health.Known(h.Key(), timeout),
		}
	}
	return states, nil
}
