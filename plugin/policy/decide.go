// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Request is what is known about a pull.
type Request struct {
	Image
	Namespace   string            // of the pod; "" = not known
	Annotations map[string]string // of the pod; hints are read from them
}

// Decision is what applies to a request, and where each part came from.
type Decision struct {
	Directives
	Rule   *Rule // the rule that matched; nil = none. Not to be changed
	levels levels
}

// level is where a directive came from. The zero value is the default.
type level uint8

const (
	fromDefault level = iota
	fromSection
	fromRule
	fromHint
)

type levels [keyCount]level

// Origin says where a directive's value came from: "default", "section",
// "hint", or the rule as [Rule.String] names it.
func (d *Decision) Origin(k Key) string {
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
func (d *Decision) Describe(k Key) string {
	return k.String() + "=" + d.Value(k) + "(" + d.Origin(k) + ")"
}

func (d *Decision) apply(o *Overrides, from level) {
	for k := range table {
		if o.Has(Key(k)) {
			table[k].copy(&d.Directives, &o.values)
			d.levels[k] = from
		}
	}
}

// Rules are the plugin section and all rules, ready to decide. They do not
// change; new ones take their place.
type Rules struct {
	rules     []Rule
	decisions []Decision // by rule; the last is for images that no rule matches
}

// NewRules puts the plugin section and the rules together, the rules in the
// order in which they are tried. It keeps rules, which must not change after.
func NewRules(section Overrides, rules []Rule) *Rules {
	base := Decision{Directives: Defaults()}
	base.apply(&section, fromSection)
	r := &Rules{rules: rules}
	for i := range rules {
		decision := base
		decision.Rule = &rules[i]
		decision.apply(&rules[i].Overrides, fromRule)
		r.decisions = append(r.decisions, decision)
	}
	r.decisions = append(r.decisions, base)
	return r
}

// Decide says what applies to a request.
//
// The error is [HintErrors]: hints that are not allowed here. The decision is
// then the one without any hint, for what is logged about the failure.
func (r *Rules) Decide(req Request) (Decision, error) {
	i := 0
	for i < len(r.rules) && !r.rules[i].matches(&req) {
		i++
	}
	decision := r.decisions[i]
	if decision.Hints == Ignore || !hasHints(req.Annotations) {
		return decision, nil
	}
	return decision.withHints(req.Annotations)
}
