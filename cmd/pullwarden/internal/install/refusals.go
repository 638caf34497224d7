// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
)

// refuseFiles refuses a node with something in the place of our files. Nothing else is
// known of it then.
func (p *Plan) refuseFiles(f *Facts) bool {
	if f.BadPath != "" {
		p.refuse("not_a_file", "%s is not a file or a directory that pullwarden has made: see what it is, and remove it", f.BadPath)
	}
	return f.BadPath != ""
}

// refuseUnit refuses nodes whose containerd is not a unit of systemd's.
func (p *Plan) refuseUnit(f *Facts) {
	switch {
	case !f.Systemd:
		p.refuse("no_systemd", "systemd does not run this node")
	case f.Service.Load == "loaded":
	case len(f.Bundled) > 0:
		p.refuse("no_unit", "there is no %s: %s runs a containerd of its own, which a drop-in cannot exchange", Unit, strings.Join(f.Bundled, " and "))
	case f.Service.Load == "masked":
		p.refuse("no_unit", "%s is masked", Unit)
	default:
		p.refuse("no_unit", "there is no %s (systemd says %s): is containerd installed, and by which name does it run?", Unit, f.Service.Load)
	}
}

// refuseStock refuses a containerd that ours would not be the like of.
func (p *Plan) refuseStock(f *Facts) {
	if foreign := foreignDropIn(f.Service.Files); foreign != "" {
		p.refuse("foreign_drop_in", "%s sets ExecStart= already, which pullwarden's drop-in would override: move its arguments to the unit itself (systemctl edit --full %s), and remove it", foreign, Unit)
		return
	}
	switch {
	case !f.Stock.Parsed:
		p.refuse("exec_start", "the ExecStart= of %s is not one that pullwarden can take the arguments of: %q", Unit, f.Stock.Command.path)
	case !f.Stock.isContainerd():
		p.refuse("exec_start", "%s runs %s, not containerd itself", f.Stock.File, f.Stock.Command.path)
	case f.Stock.Version == (Version{}):
		p.refuse("no_stock", "the node's own containerd, %s, does not say its version", f.stockName())
	case f.Stock.Version.ours():
		p.refuse("no_stock", "%s has pullwarden in it, %s: put the distribution's binary back first, so that there is a way back", f.stockName(), f.Stock.Version.Full)
	case f.New.Error == "" && !f.New.Version.sameMinor(f.Stock.Version):
		p.refuse("minor", "the node has containerd %s, and this is built with %s: take the release for %s", f.Stock.Version.Full, f.New.Version.Full, f.Stock.Version.MinorText())
	}
}

// refuseRelease refuses binaries that cannot be installed.
func (p *Plan) refuseRelease(f *Facts) {
	differs := f.Placed[daemon] != f.New.Digests[daemon] || f.Placed[companion] != f.New.Digests[companion]
	switch {
	case f.New.Error != "":
		p.refuse("release", "%s", f.New.Error)
	case !f.New.Version.ours():
		p.refuse("release", "%s/%s is containerd %s, without pullwarden", f.New.Folder, daemon, f.New.Version.Full)
	case f.isExtension():
		p.refuse("package", "%s belongs to %s, which brings its own drop-in: systemctl daemon-reload && systemctl restart %s", Dir, f.Package, Unit)
	case f.Package != "" && differs:
		p.refuse("package", "%s belongs to %s: install another version of that package, and then run %s/%s install", Dir, f.Package, Dir, companion)
	}
}

// isExtension says whether the binaries are of a system extension, which brings its own drop-in.
func (f *Facts) isExtension() bool { return strings.HasPrefix(f.Package, "sysext") }

// stockName is the path of the node's own containerd.
func (f *Facts) stockName() string {
	if f.Stock.Path != "" {
		return f.Stock.Path
	}
	return f.Stock.Command.path
}
