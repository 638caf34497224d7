// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"strings"
)

// Options is what can be chosen of a node. Its paths, and the directories of rules
// and hosts.toml files, are its own.
type Options struct {
	// Binary is the path of the containerd.
	Binary string
	// Dir is the directory for everything but the sockets. It is made where it
	// is absent, and Close removes it. Default: a new temporary directory.
	Dir string
	// Section are the lines of pullwarden's section; config_path is there
	// already. Default: no section.
	Section []string
	// Images are more lines of CRI's image plugin. Default: none.
	Images []string
	// Runtime are more lines of CRI's runtime plugin. Default: none.
	Runtime []string
	// Tables are more tables of config.toml. Default: none.
	Tables []string
	// Hosts is how many directories of hosts.toml files CRI is given; NoHosts for
	// none. Default: 1.
	Hosts int
	// LogLevel of the daemon: debug, info, … Default: debug.
	LogLevel string
	// NoSync lets the daemon write its metadata without waiting for the disk:
	// quicker, and safe from all but a crash of the machine. Default: containerd's,
	// which waits.
	NoSync bool
	// Env is added to this process's environment. Default: nothing.
	Env []string
}

// NoHosts is for CRI without hosts.toml files, as with its deprecated
// registry.mirrors.
const NoHosts = -1

// unneeded are plugins that nothing here needs, left out for a quick start. NRI
// would also share a socket with other daemons.
var unneeded = []string{
	"io.containerd.nri.v1.nri",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
	"io.containerd.snapshotter.v1.zfs", "io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
}

// config renders config.toml.
func (n *Node) config() string {
	o := &n.Options
	own := ""
	if len(o.Section) > 0 {
		own = fmt.Sprintf("[plugins.'io.containerd.image-policy.v1.pullwarden']\n  config_path = %q\n  %s\n",
			n.Path("rules"), strings.Join(o.Section, "\n  "))
	}
	return fmt.Sprintf(`version = 4
root = %[1]q
state = %[2]q
temp = %[3]q
disabled_plugins = ['%[4]s']
[debug]
  level = '%[15]s'
  format = 'json'
[plugins.'io.containerd.server.v1.grpc']
  address = %[5]q
[plugins.'io.containerd.server.v1.ttrpc']
  address = '%[6]s/t'
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = %[16]t
[plugins.'io.containerd.image-verifier.v1.bindir']
  bin_dir = %[7]q
[plugins.'io.containerd.internal.v1.opt']
  path = %[8]q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  %[17]s
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
		n.Path("root"), n.Path("state"), n.Path("temp"), strings.Join(unneeded, "', '"), n.Address(), n.sockets,
		n.Path("verifiers"), n.Path("opt"), n.Path("cni", "bin"), n.Path("cni", "net.d"),
		strings.Join(o.imageLines(), "\n  "), strings.Join(n.HostsDirs(), ":"), own, strings.Join(o.Tables, "\n"), cmp.Or(o.LogLevel, "debug"), o.NoSync,
		strings.Join(o.Runtime, "\n  "))
}
