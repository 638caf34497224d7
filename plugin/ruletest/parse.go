// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ruletest runs test cases against rules, with the daemon's own matching and
// decision: which directives an image gets, and what follows when its registry fails.
package ruletest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Suite is a file of cases.
type Suite struct {
	file string
	toml suiteTOML
	line []int // of each case
}

// Parse reads a file of cases, not the rules that it names. The error lists all
// problems, each a [*tomlfile.Error].
func Parse(file string, data []byte) (*Suite, error) {
	s := &Suite{file: file}
	if err := tomlfile.Decode(file, data, &s.toml, true); err != nil {
		return nil, err
	}
	positions, err := tomlfile.Positions(data)
	if err != nil {
		return nil, err
	}
	for i := range s.toml.Cases {
		s.line = append(s.line, positions[tomlfile.Element("case", i+1)].Line)
	}
	return s, nil
}

// suiteTOML is the file. Its paths are relative to its directory.
type suiteTOML struct {
	Config string     `toml:"config"` // a config.toml with the section; "" = there is none
	Rules  []string   `toml:"rules"`  // directories of rule files, and rule files
	Cases  []caseTOML `toml:"case"`
}

// FinishTOML implements tomlfile.Finisher.
func (s *suiteTOML) FinishTOML(report func(key, problem string)) {
	if len(s.Rules) == 0 {
		report("rules", `must name the rules that are tested: ["../pullwarden.d"]`)
	}
	if len(s.Cases) == 0 {
		report("case", "is missing: write a [[case]]")
	}
}

// caseTOML is a [[case]].
type caseTOML struct {
	Name      string            `toml:"name"`
	Image     imageTOML         `toml:"image"`
	Namespace string            `toml:"namespace"`
	Hints     map[string]string `toml:"hints"`
	Failure   failureTOML       `toml:"failure"`
	Cached    cachedTOML        `toml:"cached"`
	Checked   *durationTOML     `toml:"checked"`
	Expect    expectTOML        `toml:"expect"`
}

// FinishTOML implements tomlfile.Finisher.
func (c *caseTOML) FinishTOML(report func(key, problem string)) {
	if c.Image.text == "" {
		report("image", `is missing: write image = "registry.example.com/team/app:1"`)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Hints)) {
		short, prefixed := strings.CutPrefix(key, policy.HintPrefix)
		if _, twice := c.Hints[short]; prefixed && twice {
			report("hints", fmt.Sprintf("%q: is there twice, also with the prefix %s", short, policy.HintPrefix))
		}
	}
	if c.Expect.empty() {
		report("expect", "says nothing: write directives, a rule, an error or an outcome")
	}
	if c.Failure.class == failure.None && (c.Expect.Outcome != "" || c.Expect.Reason != nil || c.Cached.value != "" || c.Checked != nil) {
		report("failure", "is missing: outcome, reason, cached and checked are about what follows it")
	}
	if c.Cached.value == unknown && c.Checked != nil {
		report("checked", fmt.Sprintf("%q: an image with cached = %q was never checked: leave it out, or write cached = %q or %q",
			time.Duration(*c.Checked), unknown, proved, unproved))
	}
}

// imageTOML is a reference as a pod has it.
type imageTOML struct {
	text  string
	image policy.Image
}

// UnmarshalText accepts references.
func (i *imageTOML) UnmarshalText(text []byte) error {
	named, err := reference.ParseDockerRef(string(text))
	if err != nil {
		return fmt.Errorf("%q is no reference of an image: %w", text, err)
	}
	i.text, i.image = string(text), policy.ImageOf(named)
	return nil
}

// failureTOML is a failure class.
type failureTOML struct{ class failure.Class }

// UnmarshalText accepts the names of the failure classes.
func (f *failureTOML) UnmarshalText(text []byte) (err error) {
	if f.class, err = failure.Parse(string(text)); err != nil {
		return oneOf(string(text), failure.All())
	}
	return nil
}

// cached is what the node has of an image.
type cached string

const (
	absent   cached = "Absent"   // nothing
	proved   cached = "Proved"   // the image; the caller has proved that it may have it
	unproved cached = "Unproved" // the image; others have proved it
	unknown  cached = "Unknown"  // the image, imported or from before: nothing is known of it
)

type cachedTOML struct{ value cached }

// UnmarshalText accepts the names.
func (c *cachedTOML) UnmarshalText(text []byte) error {
	all := []cached{absent, proved, unproved, unknown}
	if c.value = cached(text); !slices.Contains(all, c.value) {
		return oneOf(string(text), all)
	}
	return nil
}

type durationTOML time.Duration

// UnmarshalText accepts durations from 0s.
func (d *durationTOML) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q: allowed are durations from 0s, such as 90s, 10m or 24h", text)
	}
	*d = durationTOML(parsed)
	return nil
}

// expectTOML is a [case.expect]: the directives that it names, and more.
type expectTOML struct {
	policy.RuleDirectivesTOML
	Rule    *string     `toml:"rule"` // 10-team.toml#2; "" = none
	Error   *string     `toml:"error"`
	Outcome outcomeTOML `toml:"outcome"`
	Reason  *string     `toml:"reason"`

	directives policy.Overrides
}

// FinishTOML implements tomlfile.Finisher.
func (e *expectTOML) FinishTOML(report func(key, problem string)) {
	e.directives = e.Directives(report)
}

func (e *expectTOML) empty() bool {
	return e.Rule == nil && e.Error == nil && e.Outcome == "" && e.Reason == nil &&
		reflect.ValueOf(e.RuleDirectivesTOML).IsZero()
}

type outcomeTOML engine.Kind

// UnmarshalText accepts the outcomes that may follow a failure.
func (o *outcomeTOML) UnmarshalText(text []byte) error {
	all := []engine.Kind{engine.Fresh, engine.Present, engine.UsedCached, engine.Failed}
	if *o = outcomeTOML(text); !slices.Contains(all, engine.Kind(*o)) {
		return oneOf(string(text), all)
	}
	return nil
}

// oneOf returns the error for a text that is none of the values.
func oneOf[T ~string](text string, values []T) error {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return fmt.Errorf("%q: allowed are %s", text, strings.Join(names, ", "))
}
