// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// Subject is the image and the pod that rules and hints are matched against.
type Subject struct {
	Image
	Namespace   string            // of the pod; "" = not known
	Annotations map[string]string // of the pod; hints are read from them
}

// Effective are the directives that apply to a subject, each with the level
// that set it.
type Effective struct {
	Directives
	Rule   *Rule // the rule that matched; nil = none. Not to be changed
	levels levels
	rules  *Rules // that it stands among
}

// level sets directives; later ones come before earlier ones. The zero value is
// the built-in default.
type level uint8

const (
	fromDefault level = iota
	fromSection
	fromRule
	fromHint
)

type levels [keyCount]level

// SetBy names the level that set a directive: "default", "section",
// "hint", or the rule as [Rule.String] names it.
func (d *Effective) SetBy(k Key) string {
	switch d.levels[k] {
	case fromSection:
		return "section"
	case fromRule:
		return d.Rule.String()
	case fromHint:
		return "hint"
	}
	return "default"
}

// Describe returns a directive for a log line:
// "policy=IfDigestChanged(rule 10-team-a.toml#2)".
func (d *Effective) Describe(k Key) string {
	return k.String() + "=" + d.Value(k) + "(" + d.SetBy(k) + ")"
}

// NamesRegistry reports whether the rule that matched an image names its registry, and
// not only a pattern of registries: tenants can name any number of those.
func (d *Effective) NamesRegistry(image Image) bool {
	if d.Rule == nil {
		return false
	}
	s := image.spelled()
	return slices.ContainsFunc(d.Rule.Images, func(g ImageGlob) bool { return g.namesRegistry() && g.matchesAny(&s) })
}

func (d *Effective) apply(o *Overrides, from level) {
	for k := range table {
		if o.Has(Key(k)) {
			table[k].copy(&d.Directives, &o.values)
			d.levels[k] = from
		}
	}
}

// Rules are the plugin section and all rules, ready for use. They do not
// change; new ones take their place.
type Rules struct {
	rules  []Rule
	byRule []Effective // without hints; the last is for images that no rule matches
}

// NewRules puts the plugin section and the rules together, the rules in the
// order in which they are tried. It keeps rules, which must not change after.
func NewRules(section Overrides, rules []Rule) *Rules {
	r := &Rules{rules: rules}
	base := Effective{Directives: Defaults(), rules: r}
	base.apply(&section, fromSection)
	for i := range rules {
		effective := base
		effective.Rule = &rules[i]
		effective.apply(&rules[i].Overrides, fromRule)
		r.byRule = append(r.byRule, effective)
	}
	r.byRule = append(r.byRule, base)
	return r
}

// All returns the directives of each rule without hints, in the order in which
// rules are tried, and last those for images that no rule matches. They must not
// be changed.
func (r *Rules) All() []Effective { return r.byRule }

// For returns the directives for a subject.
//
// The error is [HintErrors]: hints that are not allowed here. The directives
// then are those without any hint, for the log of the failure.
func (r *Rules) For(subject Subject) (Effective, error) {
	i, image := 0, subject.spelled()
	for i < len(r.rules) && !r.rules[i].matches(&image, subject.Namespace) {
		i++
	}
	effective := r.byRule[i]
	if effective.Hints == Ignore || !hasHints(subject.Annotations) {
		return effective, nil
	}
	return effective.withHints(subject.Annotations)
}

// inAnyNamespace reports whether the directives, without hints, that decide about an image
// for pods of one namespace at least are of that kind.
func (r *Rules) inAnyNamespace(image Image, is func(*Effective) bool) bool {
	i, spelled := 0, image.spelled()
	for ; i < len(r.rules); i++ {
		switch {
		case !r.rules[i].matchesImage(&spelled):
		case is(&r.byRule[i]):
			return true
		case r.rules[i].Namespaces == nil:
			return false // it decides for all others
		}
	}
	return is(&r.byRule[i])
}
