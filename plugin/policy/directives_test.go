// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestDefaults(t *testing.T) {
	d := Defaults()
	want := map[string]string{
		"policy": "Always", "max_age": "0s", "max_stale": "0s", "verify_timeout": "5s",
		"resolve_from": "Mirrors", "authority": "none", "govern": "Pulls", "pull_deadline": "none", "check_with": "Head", "checks_per_minute": "0", "pin": "false",
		"access": "Verified", "access_identity": "Credentials", "access_ttl": "0s",
		"allowed_sources": "all", "mode": "Enforce", "hints": "Allow",
		"on.unreachable": "UseCached", "on.unavailable": "UseCached", "on.rate_limited": "UseCached",
		"on.not_found": "UseCached", "on.unauthorized": "Fail", "on.forbidden": "Fail", "on.invalid": "Fail",
	}
	got := map[string]string{}
	for _, k := range Keys() {
		got[k.String()] = d.Value(k)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnFailure(t *testing.T) {
	classes := append(failure.All(), failure.None, failure.Class("other"))
	for policy := Always; policy <= Never; policy++ {
		for _, class := range classes {
			d := Defaults()
			d.Policy = policy
			want := Fail
			if policy == IfDigestChanged && class != failure.None && class != "other" && !class.Security() {
				want = UseCached
			}
			if got := d.OnFailure(class); got != want {
				t.Errorf("default, %s, %q: %s", policy, class, got)
			}

			// Each class has an action of its own.
			d.On = failure.SetOf(class)
			if d.On.Empty() {
				continue
			}
			for _, other := range classes {
				want := Fail
				if other == class && policy == IfDigestChanged {
					want = UseCached
				}
				if got := d.OnFailure(other); got != want {
					t.Errorf("%s, only %s uses the cache, %q: %s", policy, class, other, got)
				}
			}
		}
	}
}

// on returns the key of what to do about a class.
func on(class failure.Class) Key {
	k, ok := KeyOn(class)
	if !ok {
		panic(class)
	}
	return k
}

func TestKeyOn(t *testing.T) {
	for _, class := range failure.All() {
		if k, ok := KeyOn(class); !ok || k.String() != "on."+string(class) {
			t.Errorf("%s: %v %v", class, k, ok)
		}
	}
	if _, ok := KeyOn(failure.None); ok {
		t.Error("there is something to do about no failure")
	}
	if n := int(keyCount - keyOn); n != len(failure.All()) {
		t.Errorf("%d keys for %d classes", n, len(failure.All()))
	}
}

// distinct is, for each directive, a text that is not the default.
var distinct = func() (texts [keyCount]string) {
	for k, text := range map[Key]string{
		KeyPolicy: "Never", KeyMaxAge: "1m", KeyMaxStale: "2m", KeyVerifyTimeout: "3m",
		KeyGovern: "Starts", KeyPullDeadline: "0s", KeyCheckWith: "Manifest", KeyChecksPerMinute: "30", KeyPin: "true",
		KeyResolveFrom: "Origin", KeyAuthority: "c.test *.d.test", KeyAccess: "Any", KeyAccessIdentity: "Namespace", KeyAccessTTL: "4m",
		KeyAllowedSources: "a.test b.test:5000", KeyMode: "Observe", KeyHints: "Ignore",
		on(failure.Unreachable): "Fail", on(failure.Unavailable): "Fail", on(failure.RateLimited): "Fail", on(failure.NotFound): "Fail",
		on(failure.Unauthorized): "UseCached", on(failure.Forbidden): "UseCached", on(failure.Invalid): "UseCached",
	} {
		texts[k] = text
	}
	return texts
}()

// Each row of the table is about a value of its own.
func TestTable(t *testing.T) {
	for _, k := range Keys() {
		var o Overrides
		if err := o.Set(k, distinct[k]); err != nil {
			t.Fatal(err)
		}
		effective, err := NewRules(o, nil).For(Subject{})
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range Keys() {
			if o.Has(other) != (other == k) {
				t.Errorf("setting %s: Has(%s) is %v", k, other, o.Has(other))
			}
			want, origin := Defaults().Value(other), "default"
			if other == k {
				want, origin = distinct[k], "section"
			}
			if got := effective.Value(other); got != want || effective.SetBy(other) != origin {
				t.Errorf("setting %s: %s is %s from %s", k, other, got, effective.SetBy(other))
			}
		}
	}
}

func TestFailedSetChangesNothing(t *testing.T) {
	var o Overrides
	if err := o.Set(KeyMaxAge, "-1s"); err == nil || o != (Overrides{}) {
		t.Errorf("%v, %+v", err, o)
	}
	if err := o.Set(KeyMaxAge, "1s"); err != nil {
		t.Fatal(err)
	}
	before := o
	if err := o.Set(KeyMaxAge, "x"); err == nil || o != before || o.values.MaxAge != time.Second {
		t.Errorf("%v, %+v", err, o)
	}
}

// The TOML structs, the table and the places of texts agree on every key.
func TestTOMLKeys(t *testing.T) {
	var section SectionTOML
	for k, place := range section.texts() {
		if Key(k) == KeyAllowedSources || Key(k) == KeyAuthority || Key(k) == KeyPin || Key(k) == KeyChecksPerMinute || Key(k) >= keyOn { // lists, a boolean, a number, and a map
			continue
		}
		if place == nil {
			t.Fatalf("%s has no place", Key(k))
		}
		*place = new(Key(k).String())
	}
	seen := 0
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for f, field := range v.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
			switch {
			case f.Anonymous:
				walk(field)
			case field.Kind() == reflect.Slice:
				seen++
				if key != KeyAllowedSources.String() && key != KeyAuthority.String() {
					t.Errorf("%s is a list", key)
				}
			case field.Type() == reflect.TypeFor[*bool]():
				seen++
				if key != KeyPin.String() {
					t.Errorf("%s is a boolean", key)
				}
			case field.Type() == reflect.TypeFor[*int64]():
				seen++
				if key != KeyChecksPerMinute.String() {
					t.Errorf("%s is a number", key)
				}
			case field.Kind() == reflect.Map:
				seen += failure.Count
				if key != "on" {
					t.Errorf("%s is a map", key)
				}
			default:
				if key == "default_policy" {
					key = "policy"
				}
				seen++
				if text := *field.Interface().(*string); text != key {
					t.Errorf("%s is the place of %s", key, text)
				}
			}
		}
	}
	walk(reflect.ValueOf(section))
	if seen != int(keyCount) {
		t.Errorf("%d keys in TOML for %d directives", seen, keyCount)
	}
}
