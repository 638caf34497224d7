// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

// pluginSection is a section as its owner writes it: with keys of its own.
type pluginSection struct {
	Enabled bool `toml:"enabled"`
	SectionTOML
}

func TestParseSection(t *testing.T) {
	var s pluginSection
	if err := toml.Unmarshal([]byte(`
enabled = true
default_policy = "IfNewerNotPresent"
hints = "Tighten"
[on]
invalid = "UseCached"
`), &s); err != nil {
		t.Fatal(err)
	}
	o, err := ParseSection(s.SectionTOML)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		want := map[Key]string{KeyPolicy: "IfDigestChanged", KeyHints: "Tighten", on(failure.Invalid): "UseCached"}[k]
		if o.Has(k) != (want != "") || want != "" && o.values.Value(k) != want {
			t.Errorf("%s: set %v to %s", k, o.Has(k), o.values.Value(k))
		}
	}
}

func TestParseSectionErrors(t *testing.T) {
	section := SectionTOML{DefaultPolicy: new("")}
	section.MaxAge, section.VerifyTimeout = new("10"), new("0s")
	section.On = ActionsTOML{"not_found": "Ignore"}
	o, err := ParseSection(section)
	want := `default_policy: "": allowed are Always, IfDigestChanged, IfNotPresent, Never
max_age: "10": allowed are durations from 0s, such as 90s, 10m or 24h
verify_timeout: "0s": allowed are durations longer than 0s, such as 500ms or 5s
on.not_found: "Ignore": allowed are Fail, UseCached`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
	if e, ok := errors.AsType[*tomlfile.Error](err); !ok || e.Key != "default_policy" {
		t.Errorf("%T", err)
	}
	if o != (Overrides{}) {
		t.Error("a bad section is half in force")
	}
}

func TestSectionOfDefaults(t *testing.T) {
	section := Defaults().Section()
	got, err := toml.Marshal(section)
	if err != nil {
		t.Fatal(err)
	}
	want := `default_policy = 'Always'
max_age = '0s'
max_stale = '0s'
verify_timeout = '5s'
resolve_from = 'Mirrors'
govern = 'Pulls'
check_with = 'Head'
pin = false
access = 'Verified'
access_identity = 'Credentials'
access_ttl = '0s'
mode = 'Enforce'
hints = 'Allow'

[on]
forbidden = 'Fail'
invalid = 'Fail'
not_found = 'UseCached'
rate_limited = 'UseCached'
unauthorized = 'Fail'
unavailable = 'UseCached'
unreachable = 'UseCached'
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	o, err := ParseSection(section)
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := NewRules(o, nil).For(Subject{}); d.Directives != Defaults() {
		t.Errorf("read back as %+v", d.Directives)
	}
}

// A key that is not set is not written: a dumped configuration keeps "not set".
func TestEmptySectionMarshalsToNothing(t *testing.T) {
	got, err := toml.Marshal(SectionTOML{})
	if err != nil || string(got) != "" {
		t.Errorf("%q, %v", got, err)
	}
}

// Section returns a section that sets all directives to these values. Sources
// that allow all hosts are left out: an empty list would allow none. So is a deadline
// without a bound, which no text says.
func (d Directives) Section() SectionTOML {
	section := SectionTOML{DirectivesTOML: DirectivesTOML{Pin: new(d.Pin), AllowedSources: d.AllowedSources.globs.list(), Authority: d.Authority.globs.list()}}
	for k, place := range section.texts() {
		if place != nil && (Key(k) != KeyPullDeadline || d.PullDeadline != Deadline{}) {
			*place = new(d.Value(Key(k)))
		}
	}
	section.On = ActionsTOML{}
	for _, class := range failure.All() {
		section.On[ClassTOML(class)] = d.Value(on(class))
	}
	return section
}

// list returns the globs, nil for none.
func (h hostGlobs) list() []SourceGlob {
	var list []SourceGlob
	for glob := range strings.FieldsSeq(string(h)) {
		list = append(list, SourceGlob{glob})
	}
	return list
}
