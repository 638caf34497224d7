// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/pullwarden/pullwarden/internal/tomlfile"

// ruleTOML is a [[rule]].
type ruleTOML struct {
	Images     []ImageGlob     `toml:"images"`
	Namespaces []NamespaceGlob `toml:"namespaces"`
	Policy     *string         `toml:"policy"`
	DirectivesTOML

	overrides Overrides
}

// FinishTOML implements tomlfile.Finisher.
func (t *ruleTOML) FinishTOML(report func(key, problem string)) {
	if len(t.Images) == 0 {
		report("images", `must name images: ["**"] for all`)
	}
	if t.Namespaces != nil && len(t.Namespaces) == 0 {
		report("namespaces", "is empty: leave it out for all namespaces")
	}
	texts := t.texts()
	texts[KeyPolicy] = &t.Policy
	t.overrides = parseOverrides(texts, t.AllowedSources, func(k Key, problem string) { report(k.String(), problem) })
}

// SectionTOML is what the plugin section of containerd's configuration says
// about directives. nil = not set. It is meant to be embedded in a struct for
// the whole section, and marshals to the keys that are set.
type SectionTOML struct {
	DefaultPolicy *string `toml:"default_policy,omitempty"`
	DirectivesTOML
}

// DirectivesTOML are the keys that have the same name in a rule and in the
// plugin section. nil = not set.
type DirectivesTOML struct {
	MaxAge         *string      `toml:"max_age,omitempty"`
	MaxStale       *string      `toml:"max_stale,omitempty"`
	VerifyTimeout  *string      `toml:"verify_timeout,omitempty"`
	ResolveFrom    *string      `toml:"resolve_from,omitempty"`
	Access         *string      `toml:"access,omitempty"`
	AccessTTL      *string      `toml:"access_ttl,omitempty"`
	AllowedSources []SourceGlob `toml:"allowed_sources,omitempty"`
	Hints          *string      `toml:"hints,omitempty"`
	On             ActionsTOML  `toml:"on,omitempty"`
}

// ActionsTOML says what to do about failures, by their class. nil = not set.
type ActionsTOML struct {
	Unreachable  *string `toml:"unreachable,omitempty"`
	Unavailable  *string `toml:"unavailable,omitempty"`
	RateLimited  *string `toml:"rate_limited,omitempty"`
	NotFound     *string `toml:"not_found,omitempty"`
	Unauthorized *string `toml:"unauthorized,omitempty"`
	Forbidden    *string `toml:"forbidden,omitempty"`
	Invalid      *string `toml:"invalid,omitempty"`
}

// texts are the places of the directives' texts; nil where there is none.
type texts [keyCount]**string

func (t *DirectivesTOML) texts() texts {
	return texts{
		KeyMaxAge:         &t.MaxAge,
		KeyMaxStale:       &t.MaxStale,
		KeyVerifyTimeout:  &t.VerifyTimeout,
		KeyResolveFrom:    &t.ResolveFrom,
		KeyAccess:         &t.Access,
		KeyAccessTTL:      &t.AccessTTL,
		KeyHints:          &t.Hints,
		KeyOnUnreachable:  &t.On.Unreachable,
		KeyOnUnavailable:  &t.On.Unavailable,
		KeyOnRateLimited:  &t.On.RateLimited,
		KeyOnNotFound:     &t.On.NotFound,
		KeyOnUnauthorized: &t.On.Unauthorized,
		KeyOnForbidden:    &t.On.Forbidden,
		KeyOnInvalid:      &t.On.Invalid,
	}
}

func (t *SectionTOML) texts() texts {
	places := t.DirectivesTOML.texts()
	places[KeyPolicy] = &t.DefaultPolicy
	return places
}

// parseOverrides reads what is set, and reports what is bad: the texts, and the
// one directive that is a list.
func parseOverrides(places texts, sources []SourceGlob, report func(k Key, problem string)) Overrides {
	var o Overrides
	if sources != nil {
		if len(sources) == 0 {
			report(KeyAllowedSources, "is empty: leave it out for all hosts")
		}
		o.values.AllowedSources = newSources(sources)
		o.set |= 1 << KeyAllowedSources
	}
	for k, place := range places {
		if place == nil || *place == nil {
			continue
		}
		if err := o.Set(Key(k), **place); err != nil {
			report(Key(k), quote(**place)+": "+err.Error())
		}
	}
	return o
}

// ParseSection reads the directives of the plugin section. The error lists all
// problems, each a [*tomlfile.Error] that knows the key but no file.
func ParseSection(section SectionTOML) (Overrides, error) {
	var errs []*tomlfile.Error
	o := parseOverrides(section.texts(), section.AllowedSources, func(k Key, problem string) {
		name := k.String()
		if k == KeyPolicy {
			name = "default_policy"
		}
		errs = append(errs, &tomlfile.Error{Key: name, Message: problem})
	})
	if errs != nil {
		return Overrides{}, tomlfile.Join(errs...)
	}
	return o, nil
}
