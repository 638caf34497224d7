// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install puts the containerd with pullwarden beside a node's own one, and takes
// it away again.
//
//	Look ──► Facts ──► PlanInstall, PlanUninstall (pure) ──► Plan ──► Run
//	                                                                   │ a step fails
//	                                                                   ▼
//	                                                                restore
//
// The node's binary is never touched. A drop-in points containerd's unit to Dir, and
// removing the drop-in is the way back.
//
// Before a run changes anything it writes down what was there, in pending.json. A run that
// was killed leaves that file, so that the next one knows what was there before, not what
// the killed one has left.
package install

// The fixed places on a node. Unit is the name by which systemd knows containerd.
const (
	Dir       = "/usr/lib/pullwarden"
	DropIn    = "/etc/systemd/system/containerd.service.d/50-pullwarden.conf"
	Unit      = "containerd.service"
	daemon    = "containerd"
	companion = "pullwarden"

	previousDir = Dir + "/previous" // the binaries before the last change
	packageFile = Dir + "/package"  // says which package the binaries belong to

	stateDir    = "/var/lib/pullwarden"
	pendingFile = stateDir + "/pending.json" // there while a run is under way
	lockFile    = "/run/pullwarden.lock"
)

// binaries are the files of a release in Dir.
func binaries() []string { return []string{daemon, companion} }
