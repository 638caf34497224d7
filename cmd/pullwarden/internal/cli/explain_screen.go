// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/plugin/api"
)

const (
	outcomeFailed = "Failed"
	// anonymous is the fingerprint of no credentials.
	anonymous = "anonymous"
	// fieldIndent is where the text of a field begins.
	fieldIndent = "            "
	// maxPassed is how many of the rules that do not match are named.
	maxPassed = 3
)

func showExplanation(w io.Writer, x *api.Explanation, f format) error {
	switch f {
	case formatJSON:
		return writeJSON(w, x)
	case formatYAML:
		return writeYAML(w, x)
	}
	s := &explainScreen{columns: width(w), now: time.Now()}
	s.write(x)
	_, err := w.Write(s.text.Bytes())
	return err
}

// explainScreen shows an explanation to people.
type explainScreen struct {
	text    bytes.Buffer
	columns int
	now     time.Time
}

// field writes a labelled paragraph; none without text.
func (s *explainScreen) field(label, text string) {
	if text == "" {
		return
	}
	wrapped := wrap(text, s.columns, fieldIndent)
	s.text.WriteString(label + strings.TrimPrefix(wrapped, fieldIndent[:len(label)]))
}

func (s *explainScreen) write(x *api.Explanation) {
	s.text.WriteString(wrap(x.Sentence, s.columns, ""))
	s.text.WriteByte('\n')
	image := x.Reference
	if x.Namespace != "" {
		image += " in namespace " + x.Namespace
	}
	s.field("image", image)
	s.field("outcome", outcomeText(x))
	s.field("rule", ruleText(x))
	s.directives(x.Directives)
	s.field("cached", s.localText(x.Local))
	s.field("access", accessText(x))
	label := "hosts"
	for i, h := range x.Hosts {
		s.field(label, strconv.Itoa(i+1)+". "+hostText(h))
		label = ""
	}
	s.field(label, x.HostsError)
	label = "failed"
	for _, a := range x.Attempts {
		s.field(label, a.Host+": "+a.Class+": "+a.Text)
		label = ""
	}
	if len(x.Attempts) == 0 {
		s.field("error", x.Error)
	}
}

func outcomeText(x *api.Explanation) string {
	if x.Outcome == "" {
		return "depends"
	}
	text := fmt.Sprintf("%s (%s)", x.Outcome, x.Reason)
	if x.Digest != "" {
		text += ", " + shortDigestOf(x.Digest)
	}
	if !x.Asked {
		text += ", without a request"
	}
	return text
}

func ruleText(x *api.Explanation) string {
	text := "none matches"
	if r := x.Rule; r != nil {
		text = fmt.Sprintf("%s, %s:%d", ruleName(*r), r.File, r.Line)
	}
	if len(x.Passed) == 0 {
		return text
	}
	if x.Rule != nil {
		text += "; passed over:"
	} else {
		text += ":"
	}
	var names []string
	for _, p := range x.Passed[:min(maxPassed, len(x.Passed))] {
		names = append(names, fmt.Sprintf("%s (other %s)", ruleName(p.Rule), p.Mismatch))
	}
	text += " " + strings.Join(names, ", ")
	if more := len(x.Passed) - maxPassed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ruleName is how log lines call a rule.
func ruleName(r api.Rule) string { return filepath.Base(r.File) + "#" + strconv.Itoa(r.Index) }

// directives writes a paragraph for each level that sets some, the last word first.
func (s *explainScreen) directives(all []api.Directive) {
	levels := map[string][]string{}
	for _, d := range all {
		level, _, _ := strings.Cut(d.Origin, " ") // of "rule 10-team-a.toml#1"
		levels[level] = append(levels[level], d.Name+"="+d.Value)
	}
	for _, level := range []string{"hint", "rule", "section", "default"} {
		s.field("by "+level, strings.Join(levels[level], ", "))
	}
}

func (s *explainScreen) localText(l *api.Local) string {
	if l == nil {
		return "nothing"
	}
	text := shortDigestOf(l.Digest)
	switch {
	case !l.Runnable:
		text += ", which cannot run"
	case l.ForeignSource:
		text += ", which is not known to have come from allowed_sources alone"
	}
	if l.PullSource != "" {
		text += ", from " + l.PullSource
	}
	if len(l.ContentSources) > 0 {
		text += " by " + strings.Join(l.ContentSources, ", ")
	}
	if l.VerifiedAt.IsZero() {
		text += ", never checked"
	} else {
		text += fmt.Sprintf(", checked %s ago by %s", ago(l.VerifiedAt, s.now), orDash(l.VerifiedBy))
	}
	if !l.StaleSince.IsZero() {
		text += fmt.Sprintf(", stale for %s: %s", ago(l.StaleSince, s.now), l.StaleReason)
	}
	return text
}

func accessText(x *api.Explanation) string {
	if x.Local == nil {
		return ""
	}
	switch x.Local.Access {
	case "proved":
		switch x.Local.ProvedBy {
		case anonymous:
			return "proved for everybody (" + anonymous + ")"
		case x.Caller:
			return "proved by this caller (" + x.Caller + ")"
		}
		return "proved by the pod's namespace (" + x.Local.ProvedBy + ")"
	case "open":
		return "open: no registry was ever asked whose the image is"
	case "any":
		return "any caller may have it"
	case "unproved":
		return "unproved: this caller (" + cmp.Or(x.Caller, "not to be told apart") + ") has to ask a registry"
	}
	return ""
}

func hostText(h api.HostState) string {
	text := h.Host
	if h.Origin {
		text += " (origin)"
	}
	switch h.State {
	case api.HostLeftOut:
		return text + ": left out by allowed_sources"
	case api.HostContentOnly:
		return text + ": for content only"
	case api.HostInTrouble:
		return fmt.Sprintf("%s: in trouble since %s: %s", text, h.Since.Format(time.RFC3339), h.Class)
	case api.HostAvoided:
		return fmt.Sprintf("%s: not asked for this repository and caller until %s: %s", text, h.Until.Format(time.RFC3339), h.Class)
	case api.HostSuspected:
		return text + ": asked, but suspected of trouble"
	}
	return text + ": asked"
}

// shortDigestOf is the beginning of a digest, with its algorithm.
func shortDigestOf(digest string) string {
	algorithm, _, _ := strings.Cut(digest, ":")
	return algorithm + ":" + short(digest) + ellipsis
}
