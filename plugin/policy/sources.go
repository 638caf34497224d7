// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
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

// hostGlobs are globs on hosts, separated by spaces.
type hostGlobs string

func newHostGlobs(globs []SourceGlob) hostGlobs {
	texts := make([]string, len(globs))
	for i, g := range globs {
		texts[i] = g.text
	}
	return hostGlobs(strings.Join(texts, " "))
}

// parseHostGlobs is the inverse of newHostGlobs for text with at least one glob.
func parseHostGlobs(text, orElse string) (hostGlobs, error) {
	var globs []SourceGlob
	for field := range strings.FieldsSeq(text) {
		var g SourceGlob
		if err := g.UnmarshalText([]byte(field)); err != nil {
			return "", err
		}
		globs = append(globs, g)
	}
	if globs == nil {
		return "", errors.New("allowed: hosts, separated by spaces, or " + orElse)
	}
	return newHostGlobs(globs), nil
}

// match reports whether one of the globs matches one of the host's names. None matches "",
// a host of which nobody knows the name.
func (h hostGlobs) match(host string) bool {
	if h == "" || host == "" {
		return false
	}
	spellings := registryname.Spellings(host)
	for glob := range strings.SplitSeq(string(h), " ") {
		if address, ok := ipv6(glob); ok || !strings.ContainsAny(glob, metaCharacters) {
			if registryname.Canonical(address) == spellings[0] {
				return true
			}
			continue
		}
		glob = plainPattern(glob)
		if slices.ContainsFunc(spellings, func(name string) bool { return doublestar.MatchUnvalidated(glob, name) }) {
			return true
		}
	}
	return false
}

// Sources are the hosts that content may come from. The zero value allows all.
type Sources struct{ globs hostGlobs }

func newSources(globs []SourceGlob) Sources { return Sources{newHostGlobs(globs)} }

// All reports whether every host is allowed.
func (s Sources) All() bool { return s.globs == "" }

// Allow reports whether content may come from the host[:port].
func (s Sources) Allow(host string) bool { return s.All() || s.globs.match(host) }

// allSources is how Sources that allow all hosts are shown.
const allSources = "all"

// String lists the globs, separated by spaces.
func (s Sources) String() string { return cmp.Or(string(s.globs), allSources) }

// parseSources is the inverse of String. Configuration has a list instead.
func parseSources(text string) (Sources, error) {
	if text == allSources {
		return Sources{}, nil
	}
	globs, err := parseHostGlobs(text, allSources)
	return Sources{globs}, err
}

// Authority are the hosts besides the registry itself that say for it who may not
// have an image, and what there is not. The zero value is none.
type Authority struct{ globs hostGlobs }

func newAuthority(globs []SourceGlob) Authority { return Authority{newHostGlobs(globs)} }

// None reports whether no host is one of them.
func (a Authority) None() bool { return a.globs == "" }

// Has reports whether the host[:port] is one of them.
func (a Authority) Has(host string) bool { return a.globs.match(host) }

// noAuthority is how an Authority without hosts is shown.
const noAuthority = "none"

// String lists the globs, separated by spaces.
func (a Authority) String() string { return cmp.Or(string(a.globs), noAuthority) }

// parseAuthority is the inverse of String. Configuration has a list instead.
func parseAuthority(text string) (Authority, error) {
	if text == noAuthority {
		return Authority{}, nil
	}
	globs, err := parseHostGlobs(text, noAuthority)
	return Authority{globs}, err
}
