// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// Names reports whether a rule names a registry, host[:port]: a glob of its images says
// more of it than that it may be any.
func (r *Rules) Names(registry string) bool {
	return slices.ContainsFunc(r.rules, func(rule Rule) bool {
		return slices.ContainsFunc(rule.Images, func(g ImageGlob) bool { return g.names(registry) })
	})
}

func (g *ImageGlob) names(registry string) bool {
	host, _, _ := strings.Cut(g.repository, "/")
	switch {
	case !g.pattern:
		return doublestar.MatchUnvalidated(host, registryname.Canonical(registry)) && host != "**"
	case only(literals(host), ".:"):
		return false
	}
	return slices.ContainsFunc(registryname.Spellings(registry), func(name string) bool { return doublestar.MatchUnvalidated(host, name) })
}
