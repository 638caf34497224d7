// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// ruleTOML is a [[rule]].
type ruleTOML struct {
	Images     []ImageGlob     `toml:"images"`
	Namespaces []NamespaceGlob `toml:"namespaces"`
	RuleDirectivesTOML

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
	t.overrides = t.Directives(report)
}

// RuleDirectivesTOML are the directives of a rule. It is meant to be embedded.
type RuleDirectivesTOML struct {
	Policy *string `toml:"policy,omitempty"`
	DirectivesTOML
}

// Directives reads the directives, and reports each key that is wrong.
func (t *RuleDirectivesTOML) Directives(report func(key, problem string)) Overrides {
	texts := t.texts()
	texts[KeyPolicy] = &t.Policy
	return t.parse(texts, report)
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
	MaxAge          *string      `toml:"max_age,omitempty"`
	MaxStale        *string      `toml:"max_stale,omitempty"`
	VerifyTimeout   *string      `toml:"verify_timeout,omitempty"`
	ResolveFrom     *string      `toml:"resolve_from,omitempty"`
	Authority       []SourceGlob `toml:"authority,omitempty"`
	Govern          *string      `toml:"govern,omitempty"`
	PullDeadline    *string      `toml:"pull_deadline,omitempty"`
	CheckWith       *string      `toml:"check_with,omitempty"`
	ChecksPerMinute *int64       `toml:"checks_per_minute,omitempty"`
	Pin             *bool        `toml:"pin,omitempty"`
	Access          *string      `toml:"access,omitempty"`
	AccessIdentity  *string      `toml:"access_identity,omitempty"`
	AccessTTL       *string      `toml:"access_ttl,omitempty"`
	AllowedSources  []SourceGlob `toml:"allowed_sources,omitempty"`
	Mode            *string      `toml:"mode,omitempty"`
	Hints           *string      `toml:"hints,omitempty"`
	On              ActionsTOML  `toml:"on,omitempty"`
}

// ActionsTOML are actions by the failure class that they follow.
type ActionsTOML map[ClassTOML]string

// ClassTOML is the name of a failure class as a key.
type ClassTOML string

// UnmarshalText accepts the names of the failure classes.
func (c *ClassTOML) UnmarshalText(text []byte) error {
	if _, err := failure.Parse(string(text)); err != nil {
		return errors.New(tomlfile.Unknown(string(text), classNames()))
	}
	*c = ClassTOML(text)
	return nil
}

// texts are the places of the directives' texts; nil where there is none.
type texts [keyCount]**string

func (t *DirectivesTOML) texts() texts {
	return texts{
		KeyMaxAge:         &t.MaxAge,
		KeyMaxStale:       &t.MaxStale,
		KeyVerifyTimeout:  &t.VerifyTimeout,
		KeyResolveFrom:    &t.ResolveFrom,
		KeyGovern:         &t.Govern,
		KeyPullDeadline:   &t.PullDeadline,
		KeyCheckWith:      &t.CheckWith,
		KeyAccess:         &t.Access,
		KeyAccessIdentity: &t.AccessIdentity,
		KeyAccessTTL:      &t.AccessTTL,
		KeyMode:           &t.Mode,
		KeyHints:          &t.Hints,
	}
}

func (t *SectionTOML) texts() texts {
	places := t.DirectivesTOML.texts()
	places[KeyPolicy] = &t.DefaultPolicy
	return places
}

// parse reads the keys that are set, those of texts and those that are no single
// text, and reports each that is wrong.
func (t *DirectivesTOML) parse(places texts, report func(key, problem string)) Overrides {
	var o Overrides
	if t.AllowedSources != nil {
		if len(t.AllowedSources) == 0 {
			report(KeyAllowedSources.String(), "is empty: leave it out for all hosts")
		}
		o.values.AllowedSources = newSources(t.AllowedSources)
		o.set |= 1 << KeyAllowedSources
	}
	if t.Authority != nil {
		o.values.Authority = newAuthority(t.Authority)
		o.set |= 1 << KeyAuthority
	}
	if t.Pin != nil {
		o.values.Pin = *t.Pin
		o.set |= 1 << KeyPin
	}
	set := func(k Key, text string) {
		if err := o.Set(k, text); err != nil {
			report(k.String(), quote(text)+": "+err.Error())
		}
	}
	for k, place := range places {
		if place != nil && *place != nil {
			set(Key(k), **place)
		}
	}
	if t.ChecksPerMinute != nil {
		set(KeyChecksPerMinute, strconv.FormatInt(*t.ChecksPerMinute, 10))
	}
	for _, class := range slices.Sorted(maps.Keys(t.On)) {
		if k, ok := KeyOn(failure.Class(class)); ok {
			set(k, t.On[class])
		}
	}
	return o
}

func classNames() []string {
	var names []string
	for _, class := range failure.All() {
		names = append(names, string(class))
	}
	return names
}

// Directives reads the directives of the plugin section, and reports each key that
// is wrong by its name in that section.
func (t *SectionTOML) Directives(report func(key, problem string)) Overrides {
	return t.parse(t.texts(), func(key, problem string) {
		if key == KeyPolicy.String() {
			key = "default_policy"
		}
		report(key, problem)
	})
}

// ParseSection reads the directives of the plugin section. The error lists all
// problems, each a [*tomlfile.Error] that knows the key but no file.
func ParseSection(section SectionTOML) (Overrides, error) {
	var errs []*tomlfile.Error
	o := section.Directives(func(key, problem string) {
		errs = append(errs, &tomlfile.Error{Key: key, Message: problem})
	})
	if errs != nil {
		return Overrides{}, tomlfile.Join(errs...)
	}
	return o, nil
}
