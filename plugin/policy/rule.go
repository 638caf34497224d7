// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

// Rule sets directives for the images and namespaces that it matches.
type Rule struct {
	Images     []ImageGlob     // one of them must match
	Namespaces []NamespaceGlob // nil = any namespace, or none that is known
	Overrides  Overrides

	File   string // where the rule stands, as given to ParseRules
	Number int    // which rule of the file, counted from 1
	Line   int    // where it begins, counted from 1

	name string
}

// String returns what log lines call the rule: "rule 10-team-a.toml#2". It is printable
// whatever the file is called, with the escapes of Go where it needs some: metrics take
// no other text.
func (r *Rule) String() string {
	if r.name == "" {
		file := strconv.Quote(filepath.Base(r.File))
		return "rule " + file[1:len(file)-1] + "#" + strconv.Itoa(r.Number)
	}
	return r.name
}

// Name returns the rule's name: "10-team-a.toml#2".
func (r *Rule) Name() string { return strings.TrimPrefix(r.String(), "rule ") }

// matches reports whether the rule is about an image and a pod's namespace. A
// rule for certain namespaces never is when the namespace is not known.
func (r *Rule) matches(image *spelled, namespace string) bool {
	return r.matchesImage(image) &&
		(r.Namespaces == nil || slices.ContainsFunc(r.Namespaces, func(g NamespaceGlob) bool { return g.matches(namespace) }))
}

func (r *Rule) matchesImage(image *spelled) bool {
	return slices.ContainsFunc(r.Images, func(g ImageGlob) bool { return g.matchesAny(image) })
}

// ParseRules reads a file of rules, in their order. file is the name for
// errors and for [Rule.File]; data is what stands in it.
//
// The error lists all problems, each a [*tomlfile.Error] with its line; there
// are no rules then. A file may have no rule, or be empty.
func ParseRules(file string, data []byte) ([]Rule, error) {
	var document struct {
		Rules []ruleTOML `toml:"rule"`
	}
	if err := tomlfile.Decode(file, data, &document, true); err != nil {
		return nil, err
	}
	positions, err := tomlfile.Positions(data)
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for i, t := range document.Rules {
		rule := Rule{
			Images: t.Images, Namespaces: t.Namespaces, Overrides: t.overrides,
			File: file, Number: i + 1, Line: positions[tomlfile.Element("rule", i+1)].Line,
		}
		rule.name = rule.String()
		rules = append(rules, rule)
	}
	return rules, nil
}
