// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// Open makes the node a Registry.
func (n *node) Open(_ context.Context, req resolver.Query) (resolver.Session, error) {
	if n.onOpen != nil {
		n.onOpen()
	}
	n.mu.Lock()
	n.query = req
	n.references = append(n.references, req.Reference)
	n.mu.Unlock()
	if req.Allow != nil && !req.Allow("registry.test") {
		return nil, &resolver.SourcesError{Reference: req.Reference, Hosts: []string{"registry.test"}}
	}
	return fakeSession{n, req.Reference}, n.openErr
}

// Hosts are one, which is asked.
func (n *node) Hosts(_ context.Context, q resolver.Query, _ time.Duration) ([]resolver.HostState, error) {
	allowed := q.Allow == nil || q.Allow("registry.test")
	return []resolver.HostState{{Host: "registry.test", Origin: true, Resolve: true, Pull: true, Allowed: allowed, Asked: allowed}}, n.openErr
}

type fakeSession struct {
	*node
	reference string
}

func (s fakeSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	if s.hangs {
		<-ctx.Done()
	}
	s.mu.Lock()
	s.checks++
	s.timeout = timeout
	s.mu.Unlock()
	if ctx.Err() != nil {
		return resolver.Resolution{}, ctx.Err()
	}
	if s.onCheck != nil {
		s.onCheck()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkFails != failure.None {
		return resolver.Resolution{}, failureOf(s.reference, s.checkFails)
	}
	r := resolver.Resolution{Descriptor: s.remote, Host: "registry.test", Anonymous: s.anonymous, ByNode: s.byNode}
	if s.inNeed {
		r.Host, r.OriginFailed, r.Attempts = "mirror.test", failure.Unreachable, failureOf(s.reference, failure.Unreachable).Attempts
	}
	if _, dgst, ok := strings.Cut(s.reference, "@"); ok {
		if s.forgotten {
			return resolver.Resolution{}, failureOf(s.reference, failure.NotFound)
		}
		r.Descriptor.Digest = digest.Digest(dgst)
	}
	return r, nil
}

func (s fakeSession) Close() {}

// OpenToAll is asked by proofs, which are asked for with the lock.
func (s fakeSession) OpenToAll(manifest digest.Digest) bool {
	return s.anonymous && !s.guarded && s.Delivered(manifest)
}

// Delivered is asked as OpenToAll is.
func (s fakeSession) Delivered(manifest digest.Digest) bool {
	read := s.query.Absent && s.remote.Digest == manifest || s.query.ReadManifest || s.manifestsRead > 0 || s.pulls > 0
	return manifest != "" && read
}

// NodeShown is asked as OpenToAll is.
func (s fakeSession) NodeShown() bool {
	return s.byNode || s.nodeGuarded && (s.manifestsRead > 0 || s.pulls > 0)
}

// MayShow is what the configuration says, whoever is asked.
func (s fakeSession) MayShow() bool { return s.byNode || s.nodeGuarded }

// CredentialsShown is asked as OpenToAll is.
func (s fakeSession) CredentialsShown() bool {
	return !s.anonymous && !s.byNode || s.guarded && (s.manifestsRead > 0 || s.pulls > 0)
}

// Forget counts the sessions whose manifest is not to be taken from the check.
func (s fakeSession) Forget() { s.forgot++ }

func (s fakeSession) Origin() string { return "registry.test" }

func (s fakeSession) Named() bool { return s.named }

func (s fakeSession) Source(desc ocispec.Descriptor) resolver.Source {
	return fakeSource{s.node, desc, new(fakeFetcher)}
}

type fakeSource struct {
	*node
	desc    ocispec.Descriptor
	fetcher *fakeFetcher
}

// fakeFetcher knows whether the manifest in an index has been read from it.
type fakeFetcher struct {
	transfer.Fetcher
	read bool
}

func (s fakeSource) Resolve(context.Context) (string, ocispec.Descriptor, error) {
	return name, s.desc, nil
}

func (s fakeSource) Fetcher(context.Context, string) (transfer.Fetcher, error) { return s.fetcher, nil }

func (s fakeSource) Served() provenance.Provenance {
	return provenance.Provenance{Reference: name, Hosts: []string{"registry.test"}}
}

func (s fakeSource) Answering(string) resolver.Source { return s }

func (s fakeSource) Prefetching(resolver.Prefetch) (resolver.Source, func()) { return s, func() {} }

func (s fakeSource) Hosts() []string { return []string{"registry.test"} }

func (s fakeSource) ServedBy(digest.Digest) provenance.Provenance { return s.Served() }

func (s fakeSource) Delivered(d digest.Digest) bool { return s.fetcher.read && d == s.manifest }

func (s fakeSource) Refusals() []resolver.Attempt {
	if all := s.refuses.Load(); all != nil {
		return *all
	}
	return nil
}

func (s fakeSource) Heard() resolver.Heard { return s.hears }

func (s fakeSource) Progress() (waiting, bytes int64) { return 0, 0 }

func (s fakeSource) Redacted(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

func (s fakeSource) Clean(err error) error { return err }

func (s fakeSource) CheckConfig([]byte) error { return nil }

func (s fakeSource) Failure(err error) *resolver.Error {
	switch {
	case errors.Is(err, errQuarantined):
		return failureOf(name, failure.Forbidden)
	case errors.Is(err, resolver.ErrNoProgress):
		return failureOf(name, failure.Unreachable)
	case s.pullFails == failure.None:
		return nil
	}
	return failureOf(name, s.pullFails)
}

func failureOf(reference string, c failure.Class) *resolver.Error {
	return &resolver.Error{Reference: reference, Class: c, Attempts: []resolver.Attempt{{Host: "registry.test", Origin: true, Class: c, Refused: c.Refuses(), Err: errTest}}}
}
