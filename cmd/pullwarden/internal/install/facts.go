// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"

	"github.com/pullwarden/pullwarden/plugin/check"
)

// Facts are what a plan is made from.
type Facts struct {
	Systemd bool      // it runs the node
	Service Service   // containerd's
	Stock   Stock     // the node's own containerd
	New     Release   // what is to be installed
	Placed  Digests   // the binaries in Dir
	DropIn  *string   // the text of ours; nil where there is none
	BadPath string    // a path of ours where something else than a file or directory is; "" for none
	Package string    // that the binaries in Dir belong to; "" for none
	Bundled []string  // Kubernetes distributions on this node that bring a containerd of their own
	Config  Config    // of the node's containerd
	Pending *Original // of a run that was not finished
	CRI     string    // why CRI does not answer now; "" where it does
	Kubelet bool      // there is one, and it says that it is well
	Running int       // containers

	Contained bool // the run itself is in one
}

// Service is what systemd knows of containerd's unit.
type Service struct {
	Load     string // systemd's LoadState: loaded, not-found, masked, …
	Active   bool   // or about to be
	Starting bool   // it has not told systemd yet that it is ready
	Failed   bool
	KillMode string
	PID      int // of the daemon; 0 where it does not run
	Restarts int // by systemd, since it was last started
	Files    []UnitFile
	Version  Version // of the daemon that runs; zero where it is not known
	Digest   string  // of the binary that runs, where it is the one in Dir, or was it
	Stale    bool    // systemd has not read what is on the disk

	// Dependents are units that need it. Look leaves those that run, such as a kubelet:
	// systemd stops them for good where it does not come up.
	Dependents []string
}

// Stock is the node's own containerd.
type Stock struct {
	Command command
	File    string // that has the ExecStart=
	Parsed  bool   // there is one ExecStart=, which names an executable
	Path    string // of the executable, resolved; "" where it is not there
	InDir   bool   // it is in Dir, also where a link leads there: it is not the node's own
	Version Version
}

// isContainerd says whether the unit runs containerd itself. Another program, such as a
// wrapper, is never asked for its version: it may take no notice, and begin a daemon.
func (s *Stock) isContainerd() bool { return filepath.Base(s.Command.path) == daemon }

// Release is a folder with both binaries. The zero value is none.
type Release struct {
	Folder  string
	Version Version
	Digests Digests
	Error   string // why it cannot be installed; "" where it can
}

// Digests are those of both binaries by name; "" for one that is not there.
type Digests map[string]string

// Config is that of the node's containerd.
type Config struct {
	Path     string
	Address  string // of the socket
	Findings []check.Finding
}

// Original is what was there before a run.
type Original struct {
	Binaries Digests `json:"binaries"`
	DropIn   *string `json:"dropIn"`  // null where there was none
	Active   bool    `json:"active"`  // containerd ran
	CRI      bool    `json:"cri"`     // and CRI answered
	Version  string  `json:"version"` // of the daemon; "" where it is not known

	Dependents []string `json:"dependents,omitempty"` // units that need it, and ran
}

// original is what a failure has to bring back: what was there before the run that was not
// finished, where there is one.
func (f *Facts) original() Original {
	if f.Pending != nil {
		return *f.Pending
	}
	was := Digests{daemon: f.Placed[daemon], companion: f.Placed[companion]}
	if f.Service.Digest != "" {
		was[daemon] = f.Service.Digest // a package may have exchanged the file meanwhile
	}
	return Original{Binaries: was, DropIn: f.DropIn, Active: f.Service.Active, CRI: f.CRI == "", Version: f.Service.Version.Full, Dependents: f.Service.Dependents}
}
