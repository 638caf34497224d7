// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "strings"

const (
	lowerAndDigits = "abcdefghijklmnopqrstuvwxyz0123456789"
	upper          = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	maxTag         = 128 // OCI distribution specification
	maxNamespace   = 63  // Kubernetes' names of namespaces are DNS labels (RFC 1123)
)

// MatchesNothing returns why no image can match the glob, or "" where one may. It is
// asked for advice: a glob that matches nothing is legal.
func (g ImageGlob) MatchesNothing() string {
	_, path, _ := strings.Cut(g.repository, "/")
	switch {
	case strings.ContainsAny(literals(path), upper):
		return "repositories are in lower case"
	case !only(literals(path), lowerAndDigits+"._-/"):
		return "repositories have letters, digits and ._-/ only"
	case !only(literals(g.tag), lowerAndDigits+upper+"._-"):
		return "tags have letters, digits and ._- only"
	case strings.HasPrefix(g.tag, ".") || strings.HasPrefix(g.tag, "-"):
		return "no tag begins with " + g.tag[:1]
	case len(literals(g.tag)) > maxTag:
		return "tags have at most 128 characters"
	}
	return ""
}

// MatchesNothing returns why no namespace can match the glob, or "" where one may.
func (g NamespaceGlob) MatchesNothing() string {
	switch text := literals(g.text); {
	case strings.ContainsAny(text, upper):
		return "namespaces are in lower case"
	case !only(text, lowerAndDigits+"-"):
		return "namespaces have letters, digits and - only"
	case strings.HasPrefix(g.text, "-") || strings.HasSuffix(g.text, "-"):
		return "namespaces begin and end with a letter or a digit"
	case len(text) > maxNamespace:
		return "namespaces have at most 63 characters"
	}
	return ""
}

// only reports whether all characters of a text are among those allowed.
func only(text, allowed string) bool { return strings.Trim(text, allowed) == "" }

// literals returns the characters that every match of a glob has, in their order:
// those outside of classes and alternatives.
func literals(glob string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(glob); i++ {
		c := glob[i]
		switch {
		case c == '\\' && i+1 < len(glob):
			i++
			c = glob[i]
		case c == '*' || c == '?':
			continue
		case c == '[' || c == '{':
			depth++
			continue
		case (c == ']' || c == '}') && depth > 0:
			depth--
			continue
		}
		if depth == 0 {
			b.WriteByte(c)
		}
	}
	return b.String()
}
