// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
)

// Advice is something in a rule that is legal, and surely not meant.
type Advice struct {
	Kind AdviceKind
	Rule *Rule
	// Key is that of an array of the rule, "images" or "namespaces", and Element one
	// of its elements, counted from 1; "" and 0 where the advice is about the rule.
	Key     string
	Element int
	Text    string // what is wrong
}

// AdviceKind says what an [Advice] is about.
type AdviceKind uint8

// The kinds of advice.
const (
	NeverDecides   AdviceKind = iota // rules before it match all of its images
	MatchesNothing                   // a glob matches no image, or no namespace
)

// Advise looks for rules that never decide, and globs that match nothing, in the
// order in which rules are tried. With thousands of rules that cannot be told apart
// quickly it leaves some out, and complete is false.
func Advise(rules []Rule) (all []Advice, complete bool) {
	index := &coverIndex{rules: rules, byKey: map[coverKey][]int{}}
	for i := range rules {
		if a, ok := neverDecides(&rules[i], index); ok {
			all = append(all, a)
		} else {
			all = append(all, matchesNothing(&rules[i])...)
		}
		index.add(i)
	}
	return all, index.compared <= maxCompared
}

// neverDecides returns advice for a rule that comes after others for all of its
// images.
func neverDecides(r *Rule, before *coverIndex) (Advice, bool) {
	var cover *Rule
	for _, glob := range r.Images {
		if cover = before.cover(glob, r.Namespaces); cover == nil {
			return Advice{}, false
		}
	}
	text := "the rule never decides: "
	if cover.MatchesAll() {
		text += cover.String() + " before it matches every image"
	} else {
		text += "rules before it match all of its images, the last of them " + cover.String()
	}
	return Advice{Kind: NeverDecides, Rule: r, Text: text}, true
}

func matchesNothing(r *Rule) (all []Advice) {
	for i, glob := range r.Images {
		if why := glob.MatchesNothing(); why != "" {
			all = append(all, Advice{MatchesNothing, r, "images", i + 1, fmt.Sprintf("%q matches no image: %s", glob, why)})
		}
	}
	for i, glob := range r.Namespaces {
		if why := glob.MatchesNothing(); why != "" {
			all = append(all, Advice{MatchesNothing, r, "namespaces", i + 1, fmt.Sprintf("%q matches no namespace: %s", glob, why)})
		}
	}
	return all
}

// String returns the advice with its place, for a log line: "rule 10.toml#2: …".
func (a *Advice) String() string {
	place := a.Rule.String()
	if a.Key != "" {
		place += ": " + a.Key + "[" + strconv.Itoa(a.Element) + "]"
	}
	return place + ": " + a.Text
}
