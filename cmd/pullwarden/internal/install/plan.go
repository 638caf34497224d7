// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/plugin/check"
)

// Note is something that a plan has to say. Its identifier keeps its meaning.
type Note struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// action is the doing of a step.
type action int

const (
	keepBinaries action = iota
	placeBinaries
	writeDropIn
	removeDropIn
	restartDaemon
	awaitCRI
	removeFiles
)

// Step is one of a plan.
type Step struct {
	Text string
	do   action
}

// Plan is what a run would do. Where there are refusals it does nothing.
type Plan struct {
	Refusals []Note
	Warnings []Note
	Steps    []Step
	Remains  []string // of pullwarden on the node after it
	dropIn   string   // text of the new drop-in
	want     Version  // of the daemon afterwards; zero: any
}

func (p *Plan) refuse(id, text string, args ...any) {
	p.Refusals = append(p.Refusals, Note{id, fmt.Sprintf(text, args...)})
}

func (p *Plan) warn(id, text string, args ...any) {
	p.Warnings = append(p.Warnings, Note{id, fmt.Sprintf(text, args...)})
}

func (p *Plan) step(do action, text string, args ...any) {
	p.Steps = append(p.Steps, Step{fmt.Sprintf(text, args...), do})
}

// PlanInstall says how the release gets onto the node. A node on which it runs already has
// nothing to do: no step.
func PlanInstall(f *Facts, timeout time.Duration) Plan {
	p := Plan{dropIn: f.Stock.Command.dropInText(), want: f.New.Version}
	if p.refuseFiles(f) {
		return p
	}
	p.refuseUnit(f)
	if f.Service.Load == "loaded" {
		p.refuseStock(f)
	}
	p.refuseRelease(f)
	p.judge(f)
	if len(p.Refusals) > 0 {
		return p
	}
	place := f.Placed[daemon] != f.New.Digests[daemon] || f.Placed[companion] != f.New.Digests[companion]
	if place {
		if was := f.original().Binaries; was[daemon] != "" || was[companion] != "" {
			p.step(keepBinaries, "keep the binaries that are there in %s", previousDir)
		}
		p.step(placeBinaries, "copy containerd %s and pullwarden to %s", f.New.Version.Full, Dir)
	} else if f.Service.Digest != "" && f.Service.Digest != f.New.Digests[daemon] {
		p.step(keepBinaries, "keep the containerd that runs, %s, in %s", f.Service.Version.Full, previousDir)
	}
	if f.DropIn == nil || *f.DropIn != p.dropIn {
		p.step(writeDropIn, "write %s, by which %s runs\n%s", DropIn, Unit, strings.TrimSpace(Dir+"/"+daemon+" "+f.Stock.Command.rest))
	}
	if f.DropIn == nil || *f.DropIn != p.dropIn || f.Service.Digest != f.New.Digests[daemon] || f.Service.Stale || f.Pending != nil {
		p.restart(f, timeout)
	}
	return p
}

// PlanUninstall says how the node gets back to its own containerd.
func PlanUninstall(f *Facts, timeout time.Duration) Plan {
	p := Plan{want: f.Stock.Version}
	if p.refuseFiles(f) {
		return p
	}
	there := f.Service.Load == "loaded"
	placed := f.Placed[daemon] != "" || f.Placed[companion] != ""
	// Without systemd a node on which nothing is has nothing to undo, such as one that install refused.
	if !f.Systemd && (f.DropIn != nil || placed || f.Pending != nil) {
		p.refuse("no_systemd", "systemd does not run this node")
	}
	if f.isExtension() {
		p.refuse("package", "%s belongs to %s, which brings its own drop-in: remove the extension, then systemctl daemon-reload && systemctl restart %s", Dir, f.Package, Unit)
	}
	if there && f.Stock.InDir {
		p.refuse("no_stock", "%s runs %s by another file than pullwarden's drop-in, %s: change that first, or nothing would run containers", Unit, f.stockName(), f.Stock.File)
	} else if there && (f.DropIn != nil || f.Service.Digest != "") && (f.Stock.Path == "" || f.Stock.isContainerd() && f.Stock.Version == (Version{})) {
		p.refuse("no_stock", "the node's own containerd, %s, is not there, or does not say its version: without it nothing would run containers", f.stockName())
	}
	if there && f.DropIn != nil {
		p.judgeRestart(f)
	}
	if len(p.Refusals) > 0 || !f.Systemd {
		return p
	}
	if f.DropIn != nil {
		p.step(removeDropIn, "remove %s", DropIn)
	}
	if there && (f.DropIn != nil || f.Service.Digest != "" || f.Pending != nil) {
		p.restart(f, timeout)
	}
	switch {
	case f.Package != "":
		p.Remains = append(p.Remains, Dir+", which belongs to "+f.Package)
		if f.Pending != nil {
			p.step(removeFiles, "remove what an unfinished run has left in %s", Dir)
		}
	case placed || f.Pending != nil:
		p.step(removeFiles, "remove %s", Dir)
	}
	p.Remains = append(p.Remains, "rule files", f.Config.Path+": stock containerd passes over pullwarden's section",
		"labels of images, and the state in containerd's root")
	return p
}

// restart adds the steps by which the daemon becomes what the files say.
func (p *Plan) restart(f *Facts, timeout time.Duration) {
	kubelet := ""
	if f.Kubelet {
		kubelet = ", and the kubelet says that it is well"
	}
	p.step(restartDaemon, "systemctl daemon-reload, systemctl restart %s", Unit)
	p.step(awaitCRI, "wait until CRI answers at %s%s: %v at most, else go back", f.Config.Address, kubelet, timeout)
}

// judge adds the warnings of an installation, and refuses a configuration with errors.
func (p *Plan) judge(f *Facts) {
	errors := 0
	for _, finding := range f.Config.Findings {
		if finding.Severity == check.Error {
			errors++
		}
	}
	if errors > 0 {
		p.refuse("configuration", "pullwarden check finds %s in the configuration of %s, with which containerd would start without CRI, or the pulls of a registry fail", plural.Of(errors, "error"), f.Config.Path)
	}
	if f.New.Version.sameMinor(f.Stock.Version) && f.New.Version.Patch < f.Stock.Version.Patch {
		p.warn("older_patch", "containerd %s is older than the node's %s: what was mended since is missing", f.New.Version.Full, f.Stock.Version.Full)
	}
	if f.Pending != nil {
		p.warn("unfinished", "an earlier run was not finished; a failure of this one goes back to what was there before both")
	}
	if f.CRI != "" && f.Service.Load == "loaded" {
		p.warn("no_cri", "CRI does not answer now: %s", f.CRI)
	}
	p.judgeRestart(f)
}

// judgeRestart tells of a restart that ends containers, and refuses it where the run would
// be ended with them: nothing would wait for the daemon, and nothing would go back.
func (p *Plan) judgeRestart(f *Facts) {
	switch {
	case f.Service.Load != "loaded" || f.Service.KillMode == "process":
	case f.Contained:
		p.refuse("kill_mode", "KillMode=%s in %s: its restart ends the containers of this node, and this run with them: set KillMode=process, or run it outside of a container", f.Service.KillMode, Unit)
	case f.Running > 0:
		p.warn("kill_mode", "KillMode=%s in %s: its restart ends the %s of this node", f.Service.KillMode, Unit, plural.Of(f.Running, "running container"))
	}
}
