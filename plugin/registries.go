// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"net/http"
	"path/filepath"
	"time"

	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/metrics"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// openRegistries watches CRI's hosts.toml files, and makes what asks registries by
// them. The last good files are kept in the directory root, and copied to the directory state while
// containerd reads them. A pull of which no byte comes lasts for the patience. The caller closes both.
func openRegistries(c cri.Config, counts *metrics.Metrics, root, state string, patience time.Duration) (*hosts.Watcher, *resolver.Resolver) {
	dirs := filepath.SplitList(c.ConfigPath)
	watcher := hosts.Watch(hosts.WatchOptions{Dirs: dirs, Archive: filepath.Join(root, "last-good.tar.gz"), State: state, Reloaded: counts.HostsReloaded})
	o := resolver.Options{
		HostDirs:     dirs,
		HostsWatcher: watcher,
		Headers:      http.Header(c.Headers),
		Observe:      observeRequests(counts),

		ProgressTimeout: patience,
	}
	if len(dirs) == 0 {
		o.Hosts, o.HostsNamed = c.MirrorHosts, c.HasMirrors
	}
	return watcher, resolver.New(o)
}

// observeRequests counts requests to registries, and logs what those warn of.
func observeRequests(counts *metrics.Metrics) func(resolver.Observation) {
	var w warnings
	return func(o resolver.Observation) {
		counts.Request(o)
		w.log(counts.Host(o.Host), o.Warnings)
	}
}
