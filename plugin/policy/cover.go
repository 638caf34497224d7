// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Rules after one that covers them never decide. Whether one glob covers another is
// answered for the globs that people write: a yes is for sure, a no may be wrong.

// Covers reports whether the rule matches each image that the glob matches, in each
// of the namespaces; nil = all.
func (r *Rule) Covers(glob ImageGlob, namespaces []NamespaceGlob) bool {
	covered := false
	for i := range r.Images {
		covered = covered || r.Images[i].covers(&glob)
	}
	if !covered {
		return false
	}
	if r.Namespaces == nil || namespaces == nil {
		return r.Namespaces == nil
	}
	allowed := func(n NamespaceGlob) bool {
		return slices.ContainsFunc(r.Namespaces, func(g NamespaceGlob) bool { return coversComponent(g.text, n.text) })
	}
	return !slices.ContainsFunc(namespaces, func(n NamespaceGlob) bool { return !allowed(n) })
}

// MatchesAll reports whether the rule matches every image in every namespace.
func (r *Rule) MatchesAll() bool { return r.Covers(ImageGlob{text: "**", repository: "**"}, nil) }

// covers reports whether the glob matches each image that the other matches.
func (g *ImageGlob) covers(other *ImageGlob) bool {
	// Quick, for thousands of rules.
	if !g.pattern && !strings.HasPrefix(other.literal, g.literal) {
		return false
	}
	// A glob with a tag matches no reference by digest.
	if g.tag != "" && (other.tag == "" || !coversComponent(g.tag, other.tag)) {
		return false
	}
	if g.repository == other.repository || g.repository == "**" {
		return true
	}
	if isLiteral(other.repository) {
		image := (&Image{Repository: other.repository}).spelled()
		return g.matchesRepository(image.canonical) || g.pattern && slices.ContainsFunc(image.spellings(), g.matchesRepository)
	}
	if strings.Contains(g.repository+other.repository, "{") {
		return false // alternatives may have slashes
	}
	return coversPath(strings.Split(g.repository, "/"), strings.Split(other.repository, "/"))
}

// coversPath compares globs component by component.
func coversPath(a, b []string) bool {
	switch {
	case len(a) == 0:
		return len(b) == 0
	case a[0] == "**":
		return coversPath(a[1:], b) || len(b) > 0 && coversPath(a, b[1:])
	case len(b) == 0 || b[0] == "**":
		return false
	}
	return coversComponent(a[0], b[0]) && coversPath(a[1:], b[1:])
}

// coversComponent compares globs that match no slash.
func coversComponent(a, b string) bool {
	return a == "*" || a == b || isLiteral(b) && doublestar.MatchUnvalidated(a, b)
}

func isLiteral(glob string) bool { return !strings.ContainsAny(glob, metaCharacters) }
