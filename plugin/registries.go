// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"net/http"
	"path/filepath"

	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// openRegistries watches CRI's hosts.toml files, and makes what asks registries by
// them. The last good files are kept in the directory root. The caller closes both.
func openRegistries(c cri.Config, m *metrics, root string) (*hosts.Watcher, *resolver.Resolver) {
	dirs := filepath.SplitList(c.ConfigPath)
	watcher := hosts.Watch(hosts.WatchOptions{Dirs: dirs, Archive: filepath.Join(root, "last-good.tar.gz"), Reloaded: m.hostsReloaded})
	o := resolver.Options{
		HostDirs:     dirs,
		HostsWatcher: watcher,
		Headers:      http.Header(c.Headers),
		Observe:      m.request,
	}
	if len(dirs) == 0 {
		o.Hosts = c.MirrorHosts
	}
	return watcher, resolver.New(o)
}
