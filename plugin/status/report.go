// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status makes the picture of a node that pullwarden status shows, from the
// records of its images and the daemon's answer. It is pure: it asks nobody.
package status

import (
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/plugin/api"
)

// Report is the picture. As JSON its keys are a promise.
type Report struct {
	// Healthy says that there are no problems.
	Healthy  bool      `json:"healthy"`
	Problems []Problem `json:"problems"`
	// Notes are what is not enforced by the configuration that there is. They do not
	// make a node unhealthy.
	Notes []Problem  `json:"notes"`
	Rules api.Rules  `json:"rules"`
	Hosts []api.Host `json:"hosts"` // in trouble
	Pulls []api.Pull `json:"pulls"` // under way
	// StaleImages is how many images are stale, also where Only picks others.
	StaleImages int `json:"staleImages"`
	// BackgroundPulls is how many of the pulls go on in the background, while the cached
	// image is used.
	BackgroundPulls int     `json:"backgroundPulls"`
	Images          []Image `json:"images"`
}

// Problem is something to look at.
type Problem struct {
	// ID is its kind, one of the constants below.
	ID string `json:"id"`
	// Text says it in a sentence, whose wording may change.
	Text string `json:"text"`
}

// The kinds of problems.
const (
	RulesNotTaken = "rules_not_taken" // the newest rule files have a mistake
	HostsNotTaken = "hosts_not_taken" // the newest hosts.toml of a registry has a mistake
	HostInTrouble = "host_in_trouble"
	StaleImages   = "stale_images"
	AuditLost     = "audit_lost" // decisions are not written to the audit log
	CRINotStarted = "cri_not_started"
)

// The kinds of notes.
const (
	Unenforceable = "unenforceable" // a setting of the node keeps a rule from being kept
	OpenImages    = "open_images"   // no registry was ever asked about them
	Observed      = "observed"      // rules are not enforced, only told of
)

// New makes the picture of the records of one containerd namespace.
func New(records []images.Image, daemon api.Status) Report {
	r := Report{
		Problems: []Problem{}, Notes: []Problem{},
		Rules: daemon.Rules, Hosts: append([]api.Host{}, daemon.Hosts...), Pulls: append([]api.Pull{}, daemon.Pulls...),
		Images: sorted(imagesOf(records)),
	}
	if err := daemon.Rules.Error; err != "" {
		r.problem(RulesNotTaken, "the rule files in %s are not taken, the last good %s used instead: %s",
			daemon.Rules.Path, plural.Do(daemon.Rules.Rules, "rule", "is", "are"), err)
	}
	for _, f := range daemon.HostFiles {
		switch {
		case f.OnlyAsked:
			r.problem(HostsNotTaken, "%s is not taken, and requests fail for those of its registries that were not asked before: %s", f.Path, f.Error)
		case f.LastGood:
			r.problem(HostsNotTaken, "%s is not taken, its last good version is used instead: %s", f.Path, f.Error)
		default:
			r.problem(HostsNotTaken, "%s is not taken, and no good version of it was kept, so requests for its registries fail: %s", f.Path, f.Error)
		}
	}
	for _, h := range r.Hosts {
		r.problem(HostInTrouble, "%s is in trouble since %s: %s", h.Host, h.Since.Format(time.RFC3339), h.Class)
	}
	if n := count(r.Images, Image.Stale); n > 0 {
		r.StaleImages = n
		why := "failed"
		if count(r.Images, Image.overdue) > 0 {
			why += ", or found another digest" // and the pull of it was not waited for
		}
		r.problem(StaleImages, "%s used although the last check %s", plural.Do(n, "image", "was", "were"), why)
	}
	if n := daemon.AuditLost; n > 0 {
		r.problem(AuditLost, "the audit log is not written: %s lost up to now", plural.Of(n, "decision"))
	}
	for i := range r.Pulls {
		if r.Pulls[i].Background {
			r.BackgroundPulls++
		}
	}
	r.Healthy = len(r.Problems) == 0
	if text := observed(daemon.Rules); text != "" {
		r.Notes = append(r.Notes, Problem{Observed, text})
	}
	for _, limit := range daemon.Limits {
		r.Notes = append(r.Notes, Problem{Unenforceable, limit})
	}
	if n := count(r.Images, func(i Image) bool { return i.Open }); n > 0 && daemon.Rules.Verified {
		r.Notes = append(r.Notes, Problem{OpenImages, fmt.Sprintf(
			`no registry was ever asked about %s: where access = "Verified" holds, every caller may use them while none can be asked`, plural.Of(n, "image"))})
	}
	return r
}

// WithoutCRI adds that a plugin of CRI has not started, and why: pullwarden answers, and no
// pod starts.
func (r *Report) WithoutCRI(plugin, reason string) {
	r.problem(CRINotStarted, "CRI has not started, so no pod starts: %s: %s", plugin, reason)
	r.Healthy = false
}

// PinnedInCRI adds the names of images that CRI shows as pinned. It has one image for all manifests with the same
// config, which one pin keeps under all of their names, and records do not tell of configs.
func (r *Report) PinnedInCRI(names map[string]bool) {
	for i := range r.Images {
		r.Images[i].Pinned = r.Images[i].Pinned || names[r.Images[i].Reference]
	}
}

func (r *Report) problem(id, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{id, fmt.Sprintf(format, args...)})
}

// observed says what is not enforced since the mode is Observe; "" for nothing.
func observed(rules api.Rules) string {
	where := fmt.Sprintf("under %d of %s", rules.Observed, plural.Of(rules.Rules, "rule"))
	const rest = "for images that no rule matches"
	switch {
	case rules.Observed == 0 && !rules.RestObserved:
		return ""
	case rules.Observed == rules.Rules && rules.RestObserved:
		return `mode = "Observe": containerd pulls all images by itself`
	case rules.Observed == 0:
		where = rest
	case rules.RestObserved:
		where += ", and " + rest
	}
	return `mode = "Observe": ` + where + ", containerd pulls by itself"
}

func count(all []Image, is func(Image) bool) (n int) {
	for _, i := range all {
		if is(i) {
			n++
		}
	}
	return n
}
