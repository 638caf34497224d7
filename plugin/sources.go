// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// trackSources lets the transfer service, which was decorated before anybody
// knew whether pullwarden is enabled, track where images come from.
func trackSources(ic *plugin.InitContext, db *metadata.DB, c cri.Config) error {
	instance, err := ic.GetByID(plugins.TransferPlugin, "local")
	if err != nil {
		return fmt.Errorf("the transfer service: %w", err)
	}
	service, ok := instance.(*transfer.Service)
	if !ok {
		prefixlog.G(ic.Context).Warnf("the transfer service is a %T, and the sources of images are not recorded", instance)
		return nil
	}
	service.Track(transfer.TrackingConfig{
		Contents:    db.ContentStore(),
		Hosts:       hosts.Aliases,
		CRIHostDirs: filepath.SplitList(c.ConfigPath),
		Now:         time.Now,
	})
	return nil
}
