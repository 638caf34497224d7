// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

func FuzzParseRules(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.toml"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "docker.io/library/nginx", "1.27", "team-a")
	}
	f.Fuzz(func(t *testing.T, data []byte, repository, tag, namespace string) {
		rules, err := ParseRules("f.toml", data)
		if err != nil {
			if e, ok := errors.AsType[*tomlfile.Error](err); !ok || e.File != "f.toml" || rules != nil {
				t.Fatalf("%T: %v, %d rules", err, err, len(rules))
			}
			return
		}
		for i, r := range rules {
			if len(r.Images) == 0 || r.File != "f.toml" || r.Number != i+1 {
				t.Errorf("rule %d: %+v", i, r)
			}
		}
		d, err := NewRules(Overrides{}, rules).For(Subject{Image: Image{Repository: repository, Tag: tag}, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		if d.MaxAge < 0 || d.MaxStale < 0 || d.VerifyTimeout <= 0 {
			t.Errorf("%+v", d.Directives)
		}
		for _, k := range Keys() {
			if strings.HasPrefix(d.Value(k), "invalid") || (d.SetBy(k) != "default") != (d.Rule != nil && d.Rule.Overrides.Has(k)) {
				t.Error(d.Describe(k))
			}
		}
	})
}

// looser reports whether got lets more pass than inForce, told without the table.
func looser(inForce, got Directives) bool {
	older := func(inForce, got time.Duration) bool { return inForce != 0 && (got == 0 || got > inForce) }
	if (inForce.Policy == Never) != (got.Policy == Never) || got.Policy > inForce.Policy ||
		got.MaxAge > inForce.MaxAge || older(inForce.MaxStale, got.MaxStale) ||
		got.VerifyTimeout != inForce.VerifyTimeout || got.ResolveFrom < inForce.ResolveFrom {
		return true
	}
	for _, class := range failure.All() {
		if !inForce.On.Has(class) && got.On.Has(class) {
			return true
		}
	}
	return false
}

func FuzzHints(f *testing.F) {
	for key, k := range hintKeys {
		for mode := range uint8(3) {
			f.Add(mode, uint8(1), int64(time.Minute), int64(time.Hour), uint8(0), uint8(0b0001111),
				key, distinct[k], HintPrefix+"policy", "IfNotPresent")
			f.Add(mode, mode+1, int64(0), int64(0), uint8(1), uint8(0b1110000),
				key, "0s", HintPrefix+"nonsense", "Always")
		}
	}
	f.Fuzz(func(t *testing.T, mode, policy uint8, maxAge, maxStale int64, from, on uint8, key1, value1, key2, value2 string) {
		inForce := Defaults()
		inForce.Hints = HintMode(mode % 3)
		inForce.Policy = PullPolicy(policy % 4)
		inForce.MaxAge = time.Duration(max(maxAge, 0))
		inForce.MaxStale = time.Duration(max(maxStale, 0))
		inForce.ResolveFrom = ResolveFrom(from % 3)
		for i, class := range failure.All() {
			inForce.On = inForce.On.With(class, on>>i&1 == 1)
		}
		section, err := ParseSection(inForce.Section())
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewRules(section, nil).For(Subject{Annotations: map[string]string{key1: value1, key2: value2}})
		if err != nil {
			errs, ok := errors.AsType[HintErrors](err)
			if !ok || len(errs) == 0 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%T: %v", err, err)
			}
		}
		if (err != nil || inForce.Hints == Ignore) && d.Directives != inForce {
			t.Errorf("hints that do not count change %+v to %+v", inForce, d.Directives)
		}
		if inForce.Hints == Ignore && err != nil {
			t.Errorf("hints are read that are ignored: %v", err)
		}
		if inForce.Hints == Tighten && looser(inForce, d.Directives) {
			t.Errorf("tightening made %+v into %+v", inForce, d.Directives)
		}
		for _, class := range failure.All() {
			if class.Security() && !inForce.On.Has(class) && d.On.Has(class) {
				t.Errorf("a hint relaxed %s", class)
			}
		}
		if d.Hints != inForce.Hints {
			t.Error("a hint changed what hints may say")
		}
		if d.VerifyTimeout != inForce.VerifyTimeout && (d.VerifyTimeout < minHintedTimeout || d.VerifyTimeout > maxHintedTimeout) {
			t.Errorf("a hint made a check last %s", d.VerifyTimeout)
		}
		// The same hints over what they led to change nothing more.
		if err == nil {
			again, err := ParseSection(d.Section())
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := NewRules(again, nil).For(Subject{Annotations: map[string]string{key1: value1, key2: value2}}); err != nil || twice.Directives != d.Directives {
				t.Errorf("twice: %+v, %v", twice.Directives, err)
			}
		}
	})
}
