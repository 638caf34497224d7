// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"

	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/pull"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/store"
)

// trackSources lets the transfer service, which was decorated before anybody
// knew whether pullwarden is enabled, track where images come from.
func trackSources(ic *plugin.InitContext, db *metadata.DB, c cri.Config, settings pull.Settings) (*transfer.Service, error) {
	instance, err := ic.GetByID(plugins.TransferPlugin, "local")
	if err != nil {
		return nil, fmt.Errorf("the transfer service: %w", err)
	}
	service, ok := instance.(*transfer.Service)
	if !ok {
		return nil, fmt.Errorf("the transfer service is a %T", instance)
	}
	files, err := ic.GetSingle(plugins.ContentPlugin)
	if err != nil {
		return nil, fmt.Errorf("the content store: %w", err)
	}
	contents, ok := files.(content.Store)
	if !ok {
		return nil, fmt.Errorf("the content store is a %T", files)
	}
	service.Track(transfer.TrackingConfig{
		Contents:    db.ContentStore(),
		Files:       contents,
		Snapshotter: db.Snapshotter,
		Hosts:       hosts.Aliases,
		CRIHostDir:  c.ConfigPath,
		Now:         time.Now,

		KeepWithSnapshots: settings.DiscardLayers,
	})
	return service, nil
}

// proofKeeper has the store keep what a record says of an image that containerd has pulled once more by itself.
type proofKeeper struct {
	records *store.Store
	sources *transfer.Service
}

// KeepProofs implements pull.ProofKeeper.
func (k proofKeeper) KeepProofs(ctx context.Context, given images.Image, write func(images.Image) error) error {
	return k.records.KeepProofs(ctx, given, k.sources.Unseen(ctx, given.Target), write)
}
