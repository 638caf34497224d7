// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// config is what tests can change of a daemon's configuration.
type config struct {
	section  []string // lines of pullwarden's section; nil: no section
	images   []string // more lines of CRI's image plugin
	tables   []string // more tables
	hosts    int      // directories of hosts.toml files
	disabled []string // plugins
}

type option func(*config)

// section adds lines to pullwarden's section, which already enables it and
// names the rules.
func section(lines ...string) option {
	return func(c *config) { c.section = append(slices.Clone(c.section), lines...) }
}

// onlySection sets the lines of pullwarden's section; without any, there is none.
func onlySection(lines ...string) option { return func(c *config) { c.section = lines } }

// criImages adds lines to the section of CRI's image plugin.
func criImages(lines ...string) option {
	return func(c *config) { c.images = append(slices.Clone(c.images), lines...) }
}

// tables adds tables to the configuration.
func tables(toml string) option {
	return func(c *config) { c.tables = append(slices.Clone(c.tables), toml) }
}

// hostsDirectories sets how many directories of hosts.toml files CRI is given.
func hostsDirectories(n int) option { return func(c *config) { c.hosts = n } }

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

func defaultConfig() config {
	return config{
		section: []string{"enabled = true"},
		hosts:   1,
		// What no test needs, for a quick start. NRI would also share a socket
		// with other daemons.
		disabled: []string{
			"io.containerd.nri.v1.nri",
			"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
			"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
			"io.containerd.snapshotter.v1.zfs", "io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
			"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
		},
	}
}

func (d *daemon) hostsDirs() []string {
	var dirs []string
	for i := range d.conf.hosts {
		dirs = append(dirs, d.path(fmt.Sprintf("hosts%d", i)))
	}
	return dirs
}

// config renders config.toml.
func (d *daemon) config() string {
	c := &d.conf
	own := ""
	if len(c.section) > 0 {
		own = fmt.Sprintf("[plugins.'io.containerd.image-policy.v1.pullwarden']\n  config_path = %q\n  %s\n",
			d.path("rules"), strings.Join(c.section, "\n  "))
	}
	return fmt.Sprintf(`version = 4
root = %[1]q
state = %[2]q
temp = %[3]q
disabled_plugins = ['%[4]s']
[debug]
  level = 'debug'
  format = 'json'
[plugins.'io.containerd.server.v1.grpc']
  address = %[5]q
[plugins.'io.containerd.server.v1.ttrpc']
  address = '%[6]s/t'
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true # nothing here survives the machine anyway
[plugins.'io.containerd.image-verifier.v1.bindir']
  bin_dir = %[7]q
[plugins.'io.containerd.internal.v1.opt']
  path = %[8]q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [%[9]q]
  conf_dir = %[10]q
[plugins.'io.containerd.cri.v1.images']
  %[11]s
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '%[12]s'
%[13]s
%[14]s
`,
		d.path("root"), d.path("state"), d.path("temp"), strings.Join(c.disabled, "', '"), d.socket(), d.sockets,
		d.path("verifiers"), d.path("opt"), d.path("cni", "bin"), d.path("cni", "net.d"),
		strings.Join(c.images, "\n  "), strings.Join(d.hostsDirs(), ":"), own, strings.Join(c.tables, "\n"))
}
