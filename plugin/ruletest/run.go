// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Result is how a case ended.
type Result struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	Namespace string `json:"namespace"`
	// Differences are what was expected and not so. The case holds without any.
	Differences []Difference `json:"differences"`
}

// Difference is an expectation that does not hold.
type Difference struct {
	Key    string `json:"key"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	Origin string `json:"origin"` // of a directive: what set it; "" for what is none
}

// Run runs the cases of a file. The error says what cannot be read or has a mistake,
// in it or in the rules that it names; each problem with its place.
func Run(file string) ([]Result, error) {
	data, _, err := filestamp.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	r, err := s.rules()
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(s.toml.Cases))
	for i := range s.toml.Cases {
		c := &s.toml.Cases[i]
		results[i] = Result{
			File: file, Line: s.line[i], Name: c.Name, Image: c.Image.text, Namespace: c.Namespace,
			Differences: c.run(r),
		}
	}
	return results, nil
}

// rules reads the section and the rules that the file names.
func (s *Suite) rules() (*policy.Rules, error) {
	var section policy.Overrides
	if s.toml.Config != "" {
		path := s.path(s.toml.Config)
		data, _, err := filestamp.ReadFile(path)
		if err != nil {
			return nil, err
		}
		c, err := config.ParseFile(path, data)
		if err != nil {
			return nil, err
		}
		section = c.Directives
	}
	var (
		all  []policy.Rule
		errs []error
	)
	for _, name := range s.toml.Rules {
		files, err := readRules(s.path(name))
		errs = append(errs, err)
		for _, f := range files {
			parsed, err := policy.ParseRules(f.Path, f.Data)
			all, errs = append(all, parsed...), append(errs, err)
		}
	}
	return policy.NewRules(section, all), errors.Join(errs...)
}

func (s *Suite) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.file), name)
}

// readRules reads a rule file, or those of a directory.
func readRules(path string) ([]rules.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return rules.ReadFiles(path)
	}
	data, _, err := filestamp.ReadFile(path)
	return []rules.File{{Path: path, Data: data}}, err
}

// run returns what is not as expected.
func (c *caseTOML) run(r *policy.Rules) []Difference {
	differences := []Difference{} // an array in JSON, also without any
	differ := func(key, want, got, origin string) {
		if want != got {
			differences = append(differences, Difference{Key: key, Want: want, Got: got, Origin: origin})
		}
	}
	e, err := r.For(policy.Subject{Image: c.Image.image, Namespace: c.Namespace, Annotations: c.annotations()})
	switch message := text(err); {
	case c.Expect.Error == nil:
		differ("error", "", message, "")
	case *c.Expect.Error == "" || !strings.Contains(message, *c.Expect.Error):
		differ("error", *c.Expect.Error, message, "")
	}
	if c.Expect.Rule != nil {
		differ("rule", *c.Expect.Rule, ruleName(e.Rule), "")
	}
	for _, k := range policy.Keys() {
		if c.Expect.directives.Has(k) {
			differ(k.String(), c.Expect.directives.Value(k), e.Value(k), e.SetBy(k))
		}
	}
	if c.Failure.class == failure.None {
		return differences
	}
	action := engine.Action{Kind: engine.Failed, Reason: engine.ReasonHint} // the daemon asks no registry then
	if err == nil {
		action = c.decide(e.Directives)
	}
	if c.Expect.Outcome != "" {
		differ("outcome", string(c.Expect.Outcome), string(action.Kind), "")
	}
	if c.Expect.Reason != nil {
		differ("reason", *c.Expect.Reason, string(action.Reason), "")
	}
	return differences
}

// annotations are the pod's. A hint's key may be written without its prefix.
func (c *caseTOML) annotations() map[string]string {
	all := map[string]string{}
	for key, value := range c.Hints {
		if !strings.Contains(key, "/") {
			key = policy.HintPrefix + key
		}
		all[key] = value
	}
	return all
}

// decide asks the daemon's decision what follows when the registry fails.
func (c *caseTOML) decide(d policy.Directives) engine.Action {
	local := engine.Local{ByDigest: c.Image.image.Digest != "", Age: engine.NeverChecked}
	if c.Cached.value != absent {
		local.ImageID = "cached"
		local.Age = c.age(d)
		// An image without a source is from no allowed host, and no grant makes it one to reuse.
		local.ForeignSource = c.Cached.value == unknown && !d.AllowedSources.All()
		if !local.ForeignSource {
			local.Grant.Kind = c.grant(d)
		}
	}
	if first := engine.Decide(d, local, engine.Check{}); first.Do != engine.Ask {
		return first
	}
	if c.Failure.class.Refuses() && local.Grant.Kind == engine.GrantProved {
		local.Grant.Kind = withoutProof(d) // the refusal ends the proof before it is decided what follows
	}
	return engine.Decide(d, local, engine.Check{Class: c.Failure.class})
}

// age is the time since the last check of the cached image. Unless the case says otherwise, one is due just
// now. An image of which nothing is known was never checked.
func (c *caseTOML) age(d policy.Directives) engine.Age {
	switch {
	case c.Cached.value == unknown:
		return engine.NeverChecked
	case c.Checked != nil:
		return engine.Age(time.Duration(*c.Checked))
	}
	return engine.Age(d.MaxAge + 1)
}

// grant is whether and why the caller may reuse the cached image.
func (c *caseTOML) grant(d policy.Directives) engine.GrantKind {
	switch {
	case c.Cached.value == proved, c.Cached.value == "":
		return engine.GrantProved
	case c.Cached.value == unknown && d.Access == policy.Verified:
		return engine.GrantOpen
	}
	return withoutProof(d)
}

// withoutProof is the grant of an image of which only others have a proof.
func withoutProof(d policy.Directives) engine.GrantKind {
	if d.Access == policy.Any {
		return engine.GrantAny
	}
	return engine.GrantNone
}

// ruleName is how cases spell a rule: 10-team.toml#2; "" for none.
func ruleName(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	return strings.TrimPrefix(r.String(), "rule ")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
