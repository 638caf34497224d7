// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/plugin/check"
)

var (
	stockVersion = Version{"v2.4.2", 2, 4, 2}
	oldVersion   = Version{"v2.4.2+pullwarden.v1", 2, 4, 2}
	newVersion   = Version{"v2.4.3+pullwarden.v2", 2, 4, 3}
)

const fragment = "/lib/systemd/system/containerd.service"

// stockNode is a node that can be installed on.
func stockNode() Facts {
	unit := "[Service]\nExecStart=/usr/bin/containerd --config /etc/c.toml\n"
	return Facts{
		Systemd: true,
		Service: Service{Load: "loaded", Active: true, KillMode: "process", PID: 7, Version: stockVersion, Files: []UnitFile{{fragment, unit}}},
		Stock: Stock{
			Command: command{"", "/usr/bin/containerd", "--config /etc/c.toml"}, File: fragment, Parsed: true,
			Path: "/usr/bin/containerd", Version: stockVersion,
		},
		New:    Release{Folder: "/root/new", Version: newVersion, Digests: Digests{daemon: "d2", companion: "c2"}},
		Placed: Digests{},
		Config: Config{Path: "/etc/c.toml", Address: "/run/c.sock"},
	}
}

// installedNode runs an older release.
func installedNode() Facts {
	f := stockNode()
	text := f.Stock.Command.dropInText()
	f.DropIn, f.Placed = &text, Digests{daemon: "d1", companion: "c1"}
	f.Service.Digest, f.Service.Version = "d1", oldVersion
	f.Service.Files = append(f.Service.Files, UnitFile{DropIn, text})
	return f
}

// planCases are nodes, and by which actions, refusals and warnings each is answered.
var planCases = []struct {
	name   string
	node   func() Facts
	change func(*Facts)
	do     []action
	ids    string
}{
	{"a stock node", stockNode, func(*Facts) {}, []action{placeBinaries, writeDropIn, restartDaemon, awaitCRI}, ""},
	{"an upgrade", installedNode, func(*Facts) {}, []action{keepBinaries, placeBinaries, restartDaemon, awaitCRI}, ""},
	{"the same again", installedNode, func(f *Facts) { f.New.Digests = f.Placed }, nil, ""},
	{"only the companion is new", installedNode, func(f *Facts) { f.New.Digests[daemon] = "d1" }, []action{keepBinaries, placeBinaries}, ""},
	{"a package was upgraded", installedNode, func(f *Facts) { f.Placed, f.Package = f.New.Digests, "package pullwarden-2.4" }, []action{keepBinaries, restartDaemon, awaitCRI}, ""},
	{"a package was installed", stockNode, func(f *Facts) { f.Placed, f.Package = f.New.Digests, "package pullwarden-2.4" }, []action{writeDropIn, restartDaemon, awaitCRI}, ""},
	{"the unit has got other arguments", installedNode, func(f *Facts) { f.New.Digests, f.Stock.Command.rest = f.Placed, "-l debug" }, []action{writeDropIn, restartDaemon, awaitCRI}, ""},
	{"systemd has not read the drop-in", installedNode, func(f *Facts) { f.New.Digests, f.Service.Stale = f.Placed, true }, []action{restartDaemon, awaitCRI}, ""},
	{"an unfinished run", installedNode, func(f *Facts) { f.New.Digests, f.Pending = f.Placed, &Original{} }, []action{restartDaemon, awaitCRI}, "unfinished"},
	{"the daemon does not run", stockNode, func(f *Facts) { f.Service.Active, f.Service.PID, f.CRI = false, 0, "no socket" }, []action{placeBinaries, writeDropIn, restartDaemon, awaitCRI}, "no_cri"},
	{"a restart ends containers", stockNode, func(f *Facts) { f.Service.KillMode, f.Running = "control-group", 2 }, []action{placeBinaries, writeDropIn, restartDaemon, awaitCRI}, "kill_mode"},
	{"a restart ends the run", stockNode, func(f *Facts) { f.Service.KillMode, f.Contained = "control-group", true }, nil, "kill_mode"},
	{"a container of k3s", stockNode, func(f *Facts) { f.Service, f.Contained = Service{Load: "not-found", KillMode: "control-group"}, true }, nil, "no_unit"},
	{"our patch is older", stockNode, func(f *Facts) { f.Stock.Version.Patch = 9 }, []action{placeBinaries, writeDropIn, restartDaemon, awaitCRI}, "older_patch"},
	{"another minor", stockNode, func(f *Facts) { f.Stock.Version = Version{"v2.3.7", 2, 3, 7} }, nil, "minor"},
	{"another major", stockNode, func(f *Facts) { f.Stock.Version = Version{"1.4.6~ds1", 1, 4, 6} }, nil, "minor"},
	{"no systemd", stockNode, func(f *Facts) { f.Systemd, f.Service = false, Service{} }, nil, "no_systemd"},
	{"k3s", stockNode, func(f *Facts) { f.Service, f.Bundled = Service{Load: "not-found"}, []string{"k3s"} }, nil, "no_unit"},
	{"a masked unit", stockNode, func(f *Facts) { f.Service.Load = "masked" }, nil, "no_unit"},
	{"a drop-in of somebody else", stockNode, func(f *Facts) { addDropIn(f, "[Service]\nExecStart=\nExecStart=/usr/bin/containerd -l debug\n") }, nil, "foreign_drop_in"},
	{"a drop-in of somebody else after ours", installedNode, func(f *Facts) { addDropIn(f, "[Service]\nExecStart=\n") }, nil, "foreign_drop_in"},
	{"a drop-in without ExecStart=", stockNode, func(f *Facts) { addDropIn(f, "[Service]\nEnvironment=ExecStart=x\n") }, []action{placeBinaries, writeDropIn, restartDaemon, awaitCRI}, ""},
	{"env runs containerd", stockNode, func(f *Facts) { f.Stock.Command.path = "/usr/bin/env" }, nil, "exec_start"},
	{"two ExecStart=", stockNode, func(f *Facts) { f.Stock.Parsed = false }, nil, "exec_start"},
	{"a stock that does not run", stockNode, func(f *Facts) { f.Stock.Version = Version{} }, nil, "no_stock"},
	{"ours in the place of stock", stockNode, func(f *Facts) { f.Stock.Version = oldVersion }, nil, "no_stock"},
	{"a configuration with an error", stockNode, func(f *Facts) {
		f.Config.Findings = []check.Finding{{Severity: check.Error}, {Severity: check.Warning}}
	}, nil, "configuration"},
	{"a release that does not run here", stockNode, func(f *Facts) { f.New.Error = "not built for this machine" }, nil, "release"},
	{"a release without pullwarden", stockNode, func(f *Facts) { f.New.Version = stockVersion }, nil, "release"},
	{"over a package's files", installedNode, func(f *Facts) { f.Package = "package pullwarden-2.4" }, nil, "package"},
	{"a system extension", stockNode, func(f *Facts) { f.Package = "sysext pullwarden" }, nil, "package"},
	{"a link in our place", stockNode, func(f *Facts) { f.BadPath = DropIn }, nil, "not_a_file"},
	{"all at once", stockNode, func(f *Facts) {
		f.Stock.Version, f.Config.Findings = Version{"v2.3.7", 2, 3, 7}, []check.Finding{{Severity: check.Error}}
	}, nil, "minor configuration"},
}

func addDropIn(f *Facts, text string) {
	f.Service.Files = append(f.Service.Files, UnitFile{"/etc/systemd/system/containerd.service.d/10-site.conf", text})
}

// inDir has the unit run the binary that is ours.
func inDir(f *Facts) {
	f.Stock.Command.path, f.Stock.Path, f.Stock.Version, f.Stock.InDir = Dir+"/"+daemon, Dir+"/"+daemon, oldVersion, true
}

func TestPlanInstall(t *testing.T) {
	t.Parallel()
	for _, test := range planCases {
		f := test.node()
		test.change(&f)
		matches(t, test.name, PlanInstall(&f, time.Minute), test.do, test.ids)
	}
}

func TestPlanUninstall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		node   func() Facts
		change func(*Facts)
		do     []action
		ids    string
	}{
		{"a stock node", stockNode, func(*Facts) {}, nil, ""},
		{"an installed one", installedNode, func(*Facts) {}, []action{removeDropIn, restartDaemon, awaitCRI, removeFiles}, ""},
		{"of a package", installedNode, func(f *Facts) { f.Package = "package x" }, []action{removeDropIn, restartDaemon, awaitCRI}, ""},
		{"after containerd's package is gone", installedNode, func(f *Facts) { f.Service, f.Stock = Service{Load: "not-found"}, Stock{} }, []action{removeDropIn, removeFiles}, ""},
		{"the binaries were copied, and no more", stockNode, func(f *Facts) { f.Placed = Digests{daemon: "d1"} }, []action{removeFiles}, ""},
		{"an unfinished run", stockNode, func(f *Facts) { f.Pending = &Original{} }, []action{restartDaemon, awaitCRI, removeFiles}, ""},
		{"another minor by now", installedNode, func(f *Facts) { f.Stock.Version = Version{"v2.5.0", 2, 5, 0} }, []action{removeDropIn, restartDaemon, awaitCRI, removeFiles}, ""},
		{"a configuration with an error", installedNode, func(f *Facts) { f.Config.Findings = []check.Finding{{Severity: check.Error}} }, []action{removeDropIn, restartDaemon, awaitCRI, removeFiles}, ""},
		{"no binary to go back to", installedNode, func(f *Facts) { f.Stock.Version = Version{} }, nil, "no_stock"},
		{"nothing to go back to", installedNode, func(f *Facts) { f.Stock.Version, f.Stock.Path = Version{}, "" }, nil, "no_stock"},
		{"the unit itself runs what would be removed", installedNode, inDir, nil, "no_stock"},
		{"the same, without our drop-in", installedNode, func(f *Facts) { inDir(f); f.DropIn = nil }, nil, "no_stock"},
		{"a drop-in of another name runs it", stockNode, func(f *Facts) { inDir(f); f.Placed = Digests{daemon: "d1"} }, nil, "no_stock"},
		{"ours runs, by a command that cannot be read", installedNode, func(f *Facts) { f.DropIn, f.Stock = nil, Stock{} }, nil, "no_stock"},
		{"somebody has removed the drop-in", installedNode, func(f *Facts) { f.DropIn = nil }, []action{restartDaemon, awaitCRI, removeFiles}, ""},
		{"a system extension", installedNode, func(f *Facts) { f.DropIn, f.Package = nil, "sysext pullwarden" }, nil, "package"},
		{"a system extension over what a tarball has left", installedNode, func(f *Facts) { f.Package = "sysext pullwarden" }, nil, "package"},
		{"a wrapper by now", installedNode, func(f *Facts) { f.Stock.Version, f.Stock.Command.path = Version{}, "/opt/wrapper" }, []action{removeDropIn, restartDaemon, awaitCRI, removeFiles}, ""},
		{"a restart ends the run", installedNode, func(f *Facts) { f.Service.KillMode, f.Contained = "mixed", true }, nil, "kill_mode"},
		{"no systemd", installedNode, func(f *Facts) { f.Systemd = false }, nil, "no_systemd"},
		{"no systemd, and no more than a drop-in", noSystemd, func(f *Facts) { f.DropIn = new(string) }, nil, "no_systemd"},
		{"no systemd, and a binary alone", noSystemd, func(f *Facts) { f.Placed = Digests{companion: "c1"} }, nil, "no_systemd"},
		{"no systemd, and an unfinished run", noSystemd, func(f *Facts) { f.Pending = &Original{} }, nil, "no_systemd"},
		{"no systemd, and nothing that install has left", noSystemd, func(*Facts) {}, nil, ""},
	} {
		f := test.node()
		test.change(&f)
		p := PlanUninstall(&f, time.Minute)
		matches(t, test.name, p, test.do, test.ids)
		if !f.Systemd && len(p.Remains) > 0 {
			t.Errorf("%s: nothing is known to remain: %q", test.name, p.Remains)
		}
	}
}

// noSystemd is a node that install refuses.
func noSystemd() Facts { return Facts{Placed: Digests{}} }

// matches compares a plan with the actions and the identifiers of its notes.
func matches(t *testing.T, name string, p Plan, do []action, ids string) {
	t.Helper()
	var got []action
	for _, step := range p.Steps {
		got = append(got, step.do)
	}
	var notes []string
	for _, note := range slices.Concat(p.Refusals, p.Warnings) {
		notes = append(notes, note.ID)
	}
	if !slices.Equal(got, do) || strings.Join(notes, " ") != ids {
		t.Errorf("%s: %v %v, not %v %s", name, got, notes, do, ids)
	}
}
