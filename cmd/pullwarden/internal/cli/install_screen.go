// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pullwarden/pullwarden/cmd/pullwarden/internal/install"
	"github.com/pullwarden/pullwarden/internal/plural"
)

// The outcomes of install and uninstall. Scripts rely on them.
const (
	installPlanned  = "planned"       // without --yes
	installNothing  = "nothing_to_do" // it is so already
	installRefused  = "refused"
	installRestored = "rolled_back" // it failed, and what was there before is there again
	installFailed   = "failed"      // and is not, or not known to be
)

// installDocument is what -o json writes. Its keys are a promise.
type installDocument struct {
	Outcome  string         `json:"outcome"`
	Reason   string         `json:"reason,omitempty"`
	Found    installFound   `json:"found"`
	Refusals []install.Note `json:"refusals"`
	Warnings []install.Note `json:"warnings"`
	Steps    []installStep  `json:"steps"`
	Remains  []string       `json:"remains,omitempty"`
	Log      []string       `json:"log,omitempty"`
}

// installFound is the node as it was before.
type installFound struct {
	Unit       string `json:"unit"`       // its file
	Containerd string `json:"containerd"` // path of the node's own
	Version    string `json:"version"`    // of the node's own
	Running    string `json:"running"`    // version of the daemon that runs
	Config     string `json:"config"`
	Address    string `json:"address"`
	Kubelet    bool   `json:"kubelet"` // it says that it is well
	Containers int    `json:"containers"`
	Package    string `json:"package,omitempty"`
}

type installStep struct {
	Text  string `json:"text"`
	Begun bool   `json:"begun"`
}

// installScreen shows a run of install or uninstall.
type installScreen struct {
	w     io.Writer
	flags *installFlags
	plan  install.Plan
	facts install.Facts
	doc   installDocument
}

func newInstallScreen(w io.Writer, flags *installFlags, f install.Facts, plan install.Plan) *installScreen {
	s := &installScreen{w: w, flags: flags, plan: plan, facts: f}
	s.doc = installDocument{
		Found: installFound{
			Containerd: f.Stock.Path, Version: f.Stock.Version.Full, Running: f.Service.Version.Full,
			Config: f.Config.Path, Address: f.Config.Address, Kubelet: f.Kubelet, Containers: f.Running, Package: f.Package,
		},
		Refusals: append([]install.Note{}, plan.Refusals...),
		Warnings: append([]install.Note{}, plan.Warnings...),
		Steps:    []installStep{},
		Remains:  plan.Remains,
	}
	if len(f.Service.Files) > 0 {
		s.doc.Found.Unit = f.Service.Files[0].Path
	}
	for _, step := range plan.Steps {
		s.doc.Steps = append(s.doc.Steps, installStep{Text: step.Text})
	}
	return s
}

// line writes a line for people, wrapped; the lines after its first have the indent.
func (s *installScreen) line(indent, text string, args ...any) {
	if s.flags.output != formatJSON {
		wrapped := wrap(fmt.Sprintf(text, args...), width(s.w), indent)
		_, _ = io.WriteString(s.w, strings.TrimPrefix(wrapped, indent))
	}
}

// begin shows what was found, and the steps where they are not done now. It says whether
// they are.
func (s *installScreen) begin() bool {
	s.found()
	for _, note := range s.plan.Warnings {
		s.line("  ", "warning: %s", note.Text)
	}
	switch {
	case len(s.plan.Refusals) > 0:
		s.doc.Outcome = installRefused
	case len(s.plan.Steps) == 0:
		s.doc.Outcome = installNothing
	case !s.flags.yes:
		s.doc.Outcome = installPlanned
		for i := range s.plan.Steps {
			s.showStep(i)
		}
	}
	return s.doc.Outcome == ""
}

func (s *installScreen) found() {
	found := &s.doc.Found
	if found.Unit == "" {
		return
	}
	s.row("unit        %s", found.Unit)
	s.row("containerd  %s, %s", found.Containerd, found.Version)
	if found.Running != "" {
		s.row("running     %s, %s", found.Running, plural.Of(found.Containers, "container"))
	}
	s.row("config      %s, %s", found.Config, plural.Of(len(s.facts.Config.Findings), "finding"))
	s.row("socket      %s", found.Address)
	kubelet := "none that says it is well: it is not waited for"
	if found.Kubelet {
		kubelet = "is well"
	}
	s.row("kubelet     %s", kubelet)
}

// row writes a line as it is.
func (s *installScreen) row(text string, args ...any) {
	if s.flags.output != formatJSON {
		_, _ = fmt.Fprintf(s.w, text+"\n", args...)
	}
}

func (s *installScreen) showStep(i int) { s.line("   ", "%d. %s", i+1, s.plan.Steps[i].Text) }

// step shows a step that begins.
func (s *installScreen) step(i int) {
	s.doc.Steps[i].Begun = true
	s.showStep(i)
}

// end shows the outcome, first of all where it is none that was wanted. The error says how
// the verb exits.
func (s *installScreen) end(err error, done string) error {
	switch failure, ok := errors.AsType[*install.Failure](err); {
	case ok && failure.Restored:
		s.doc.Outcome, s.doc.Reason, s.doc.Log = installRestored, failure.Error(), failure.Log
	case ok:
		s.doc.Outcome, s.doc.Log = installFailed, failure.Log
		s.doc.Reason = failure.Error() + "; not back to what was there before: " + failure.Lost.Error()
	case err != nil:
		s.doc.Outcome, s.doc.Reason = installFailed, err.Error()
	case s.doc.Outcome == installRefused:
		s.doc.Reason = s.plan.Refusals[0].Text
	case s.doc.Outcome == installNothing && s.facts.DropIn != nil && s.facts.CRI != "" && s.facts.Service.Load == "loaded":
		s.doc.Outcome, s.doc.Reason = installFailed, "nothing is to be done, but CRI does not answer: "+s.facts.CRI
	case s.doc.Outcome == "":
		s.doc.Outcome = done
	}
	if s.flags.output == formatJSON {
		if err := writeJSON(s.w, s.doc); err != nil {
			return err
		}
	} else {
		s.ending()
	}
	if s.doc.Reason != "" {
		return exit(exitFailed)
	}
	return nil
}

func (s *installScreen) ending() {
	switch s.doc.Outcome {
	case installPlanned:
		s.line("", "This was a dry run: nothing has been changed. --yes does it.")
	case installNothing:
		s.line("", "There is nothing to do.")
	case installRefused:
		s.line("", "Refused: nothing has been changed.")
		for _, note := range s.plan.Refusals {
			s.line("  ", "- %s", note.Text)
		}
	case installRestored:
		s.line("", "Rolled back: containerd is as it was before.")
		s.line("", "%s", s.doc.Reason)
	case installFailed:
		s.line("", "Failed.")
		s.line("", "%s", s.doc.Reason)
	default:
		s.line("", "Done: %s.", s.doc.Outcome)
		for _, what := range s.plan.Remains {
			s.line("  ", "stays: %s", what)
		}
		s.nextStep()
	}
	if len(s.doc.Log) > 0 {
		s.line("", "containerd's last log lines:")
		for _, line := range s.doc.Log {
			_, _ = fmt.Fprintf(s.w, "  %s\n", line)
		}
	}
}

// nextStep tells how to switch the plugin on, where it is not.
func (s *installScreen) nextStep() {
	for _, finding := range s.facts.Config.Findings {
		if finding.ID == "PW0301" && s.doc.Outcome == "installed" {
			s.line("", "The plugin is off, and containerd behaves as stock does. Switch it on in %s, and restart:", s.facts.Config.Path)
			_, _ = io.WriteString(s.w, "  [plugins.\"io.containerd.image-policy.v1.pullwarden\"]\n    enabled = true\n    mode    = \"Observe\"\n")
		}
	}
}
