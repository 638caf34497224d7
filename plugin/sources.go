// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/log"
	"github.com/containerd/plugin"

	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
)

// recordSources lets the transfer service, which was decorated before it was
// known whether pullwarden is enabled, record where images come from.
func recordSources(ic *plugin.InitContext, db *metadata.DB, c cri.Config) error {
	instance, err := ic.GetByID(plugins.TransferPlugin, "local")
	if err != nil {
		return fmt.Errorf("the transfer service: %w", err)
	}
	service, ok := instance.(*transfer.Service)
	if !ok {
		log.G(ic.Context).Warnf("pullwarden: the transfer service is a %T, and the sources of images are not recorded", instance)
		return nil
	}
	service.Record(transfer.Recording{
		Contents:   db.ContentStore(),
		Hosts:      transferHosts,
		CRIHostDir: c.ConfigPath,
		Now:        time.Now,
	})
	return nil
}

// transferHosts lists the hosts that containerd's own resolver asks.
func transferHosts(ctx context.Context, reference string, c transfer.HostConfig) ([]transfer.Host, error) {
	aliases, err := resolver.Aliases(ctx, reference, c.Dir, c.DefaultScheme)
	if err != nil {
		return nil, err
	}
	hosts := make([]transfer.Host, len(aliases))
	for i, a := range aliases {
		hosts[i] = transfer.Host{Address: a.Host, Name: a.Name, Reference: a.Reference}
	}
	return hosts, nil
}
