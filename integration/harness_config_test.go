// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"runtime"
	"slices"

	testdaemon "github.com/pullwarden/pullwarden/integration/daemon"
)

// config is what tests can change of a daemon's configuration.
type config = testdaemon.Options

type option func(*config)

// section adds lines to pullwarden's section, which already enables it and
// names the rules.
func section(lines ...string) option {
	return func(c *config) { c.Section = append(slices.Clone(c.Section), lines...) }
}

// onlySection sets the lines of pullwarden's section; without any, there is none.
func onlySection(lines ...string) option { return func(c *config) { c.Section = lines } }

// criImages adds lines to the section of CRI's image plugin.
func criImages(lines ...string) option {
	return func(c *config) { c.Images = append(slices.Clone(c.Images), lines...) }
}

// tables adds tables to the configuration.
func tables(toml string) option {
	return func(c *config) { c.Tables = append(slices.Clone(c.Tables), toml) }
}

// hostsDirectories sets how many directories of hosts.toml files CRI is given.
func hostsDirectories(n int) option { return func(c *config) { c.Hosts = n } }

// nativeRuntime adds a runtime handler "native" whose images are unpacked by
// the native snapshotter.
func nativeRuntime() option {
	platform := "linux/" + runtime.GOARCH
	return tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.runtime_platforms.native]
  snapshotter = 'native'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.native]
  runtime_type = 'io.containerd.runc.v2'
  snapshotter = 'native'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = %[1]q
  snapshotter = 'overlayfs'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = %[1]q
  snapshotter = 'native'
`, platform))
}
