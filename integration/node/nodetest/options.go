// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/pullwarden/pullwarden/integration/node"
)

// Option changes what is chosen of a node. Default: pullwarden's section with
// enabled = true, and metadata that is written without waiting for the disk.
type Option func(*node.Options)

// IfDigestChanged is the line of pullwarden's section that makes it the default
// policy.
const IfDigestChanged = `default_policy = "IfDigestChanged"`

// Section adds lines to pullwarden's section, which already enables it and
// names the rules.
func Section(lines ...string) Option {
	return func(o *node.Options) { o.Section = append(slices.Clone(o.Section), lines...) }
}

// AuditLog has the daemon write an audit log to that path in the node's directory.
func AuditLog(elem ...string) Option {
	return func(o *node.Options) {
		path := filepath.Join(append([]string{o.Dir}, elem...)...)
		o.Section = append(slices.Clone(o.Section), fmt.Sprintf("audit_log = %q", path))
	}
}

// OnlySection sets the lines of pullwarden's section; without any, there is none.
func OnlySection(lines ...string) Option { return func(o *node.Options) { o.Section = lines } }

// CRIImages adds lines to the section of CRI's image plugin.
func CRIImages(lines ...string) Option {
	return func(o *node.Options) { o.Images = append(slices.Clone(o.Images), lines...) }
}

// CRIRuntime adds lines to the section of CRI's runtime plugin.
func CRIRuntime(lines ...string) Option {
	return func(o *node.Options) { o.Runtime = append(slices.Clone(o.Runtime), lines...) }
}

// Daemon sets the containerd that the node runs, in place of the one under test.
func Daemon(path string) Option { return func(o *node.Options) { o.Binary = path } }

// Setting gives CRI a setting with which stock CRI pulls without the transfer
// service.
func Setting(s node.Setting) Option { return func(o *node.Options) { o.Apply(s) } }

// Tables adds tables to config.toml.
func Tables(toml string) Option {
	return func(o *node.Options) { o.Tables = append(slices.Clone(o.Tables), toml) }
}

// ObserveDev is a rule by which pods of the namespace dev are only observed: containerd pulls for them by itself.
const ObserveDev = "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\nmode = \"Observe\"\n"

// CRICredentials gives CRI, in its deprecated registry.configs, credentials of the node's for a registry.
func CRICredentials(host, username, password string) Option {
	return Tables(fmt.Sprintf("[plugins.'io.containerd.cri.v1.images'.registry.configs.'%s'.auth]\n  username = '%s'\n  password = '%s'\n", host, username, password))
}

// HostsDirectories sets how many directories of hosts.toml files CRI is given.
func HostsDirectories(n int) Option { return func(o *node.Options) { o.Hosts = n } }

// Env adds variables, NAME=VALUE each, to the daemon's environment.
func Env(vars ...string) Option {
	return func(o *node.Options) { o.Env = append(slices.Clone(o.Env), vars...) }
}

// WithoutHostsDirectories starts CRI without hosts.toml files, as its deprecated
// registry.mirrors need it.
func WithoutHostsDirectories() Option { return func(o *node.Options) { o.Hosts = node.NoHosts } }

// NativeRuntime adds a runtime handler "native" whose images are unpacked by
// the native snapshotter.
func NativeRuntime() Option { return Runtime("native") }

// Runtime adds a runtime handler with the name of the snapshotter by which its images are
// unpacked.
func Runtime(snapshotter string) Option {
	return Tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.runtime_platforms.%[1]s]
  snapshotter = '%[1]s'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.%[1]s]
  runtime_type = 'io.containerd.runc.v2'
  snapshotter = '%[1]s'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = %[2]q
  snapshotter = 'overlayfs'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = %[2]q
  snapshotter = '%[1]s'
`, snapshotter, "linux/"+runtime.GOARCH))
}
