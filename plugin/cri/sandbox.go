// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// resolveTimeout bounds the request for the digest of the sandbox image.
const resolveTimeout = 30 * time.Second

// Registry opens sessions with the hosts of a reference; *resolver.Resolver is one.
type Registry interface {
	Open(ctx context.Context, q resolver.Query) (resolver.Session, error)
}

// SandboxImage is the image of pods, which CRI pulls itself. No policy applies to
// it. Where CRI would pull it without the transfer service, or with a list of
// directories that the transfer service takes for one, it is pulled here like all
// others: from the hosts of its hosts.toml, and with its source recorded.
type SandboxImage struct {
	// Name is what CRI is configured with.
	Name     string
	Config   Config
	Puller   Puller
	Registry Registry
	// Needed reports whether the pods of a runtime handler need the image.
	Needed func(handler string) bool
	// Now is the clock.
	Now func() time.Time

	pulls shared.Group[string, error, struct{}]
}

// untilItEnds lets a pull be joined as long as it runs.
const untilItEnds = time.Duration(math.MaxInt64)

// ensure pulls the image if a pod needs it and CRI does not know it. Pods that need it
// at the same time share one pull, and its failure: with a registry that hangs, each of
// a line would wait for all before it.
func (s *SandboxImage) ensure(ctx context.Context, images runtime.ImageServiceServer, handler string) error {
	if !s.Needed(handler) {
		return nil
	}
	if there, err := s.there(ctx, images); there || err != nil {
		return err
	}
	_, _, err := s.pulls.Do(ctx, s.Name, shared.Work[error, struct{}]{
		Ask:    func(ctx context.Context, _ func()) error { return s.pull(ctx, images, handler) },
		Within: untilItEnds,
		Act:    func(_ context.Context, err error) (struct{}, error) { return struct{}{}, err },
	})
	return err
}

// pull pulls the image, unless CRI knows it by now.
func (s *SandboxImage) pull(ctx context.Context, images runtime.ImageServiceServer, handler string) error {
	named, err := reference.ParseDockerRef(s.Name)
	if err != nil {
		return err
	}
	if there, err := s.there(ctx, images); there || err != nil {
		return err
	}
	session, err := s.Registry.Open(ctx, resolver.Query{Reference: named.String(), Credentials: s.Config.credentials(nil)})
	if err != nil {
		return err
	}
	defer session.Close()
	resolved, err := session.Resolve(ctx, resolveTimeout)
	if err != nil {
		return err
	}
	plan := &transfer.Plan{
		Reference: named.String(),
		Source:    session.Source(resolved.Descriptor),
		State: func(_ digest.Digest, before store.State) store.State {
			before.PulledAt = s.Now()
			return before
		},
	}
	// Another one would not do where layers are discarded once they are unpacked.
	_, err = s.Puller.Pull(ctx, plan, s.Puller.ContainerSnapshotter(handler))
	return err
}

func (s *SandboxImage) there(ctx context.Context, images runtime.ImageServiceServer) (bool, error) {
	status, err := images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: s.Name}})
	if err != nil {
		return false, fmt.Errorf("ask CRI for the image: %w", err)
	}
	return status.GetImage() != nil, nil
}
