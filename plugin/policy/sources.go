// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// SourceGlob matches hosts that content may come from: host[:port], without a
// scheme, by whichever of a registry's names. The zero value matches none.
type SourceGlob struct{ text string }

// UnmarshalText accepts well-formed globs of host[:port].
func (g *SourceGlob) UnmarshalText(text []byte) error {
	return unmarshal(g, text, func(text string) (SourceGlob, error) {
		switch {
		case text == "":
			return SourceGlob{}, errors.New("names no host")
		case strings.ContainsAny(text, "/@ \t\n"):
			return SourceGlob{}, errors.New("is not a host: allowed are host[:port] without a scheme and a path, such as mirror.example.com:5000 or *.example.com")
		case !doublestar.ValidatePattern(text):
			return SourceGlob{}, errors.New("is not a valid glob")
		}
		return SourceGlob{text}, nil
	})
}

// MarshalText returns the glob as it was written.
func (g SourceGlob) MarshalText() ([]byte, error) { return []byte(g.text), nil }

// Sources are the hosts that content may come from. The zero value allows all.
type Sources struct {
	globs string // separated by spaces; "" = all
}

func newSources(globs []SourceGlob) Sources {
	texts := make([]string, len(globs))
	for i, g := range globs {
		texts[i] = g.text
	}
	return Sources{strings.Join(texts, " ")}
}

// All reports whether every host is allowed.
func (s Sources) All() bool { return s.globs == "" }

// Allow reports whether content may come from the host[:port].
func (s Sources) Allow(host string) bool {
	if s.All() {
		return true
	}
	spellings := registryname.Spellings(host)
	for glob := range strings.SplitSeq(s.globs, " ") {
		if address, ok := ipv6(glob); ok || !strings.ContainsAny(glob, metaCharacters) {
			if registryname.Canonical(address) == spellings[0] {
				return true
			}
			continue
		}
		glob = strings.ToLower(glob)
		if slices.ContainsFunc(spellings, func(name string) bool { return doublestar.MatchUnvalidated(glob, name) }) {
			return true
		}
	}
	return false
}

// allSources is how Sources that allow all hosts are shown.
const allSources = "all"

// String lists the globs, separated by spaces.
func (s Sources) String() string {
	if s.All() {
		return allSources
	}
	return s.globs
}

// parseSources is the inverse of String. Configuration has a list instead.
func parseSources(text string) (Sources, error) {
	if text == allSources {
		return Sources{}, nil
	}
	var globs []SourceGlob
	for field := range strings.FieldsSeq(text) {
		var g SourceGlob
		if err := g.UnmarshalText([]byte(field)); err != nil {
			return Sources{}, err
		}
		globs = append(globs, g)
	}
	if globs == nil {
		return Sources{}, errors.New("allowed: hosts, separated by spaces, or " + allSources)
	}
	return newSources(globs), nil
}
