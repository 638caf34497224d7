// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
)

// HintPrefix begins the annotations that are hints.
const HintPrefix = "pullwarden.io/"

// hintKeys finds a directive by its hint's key.
var hintKeys = func() map[string]Key {
	keys := map[string]Key{}
	for k, d := range table {
		if d.hint != "" {
			keys[HintPrefix+d.hint] = Key(k)
		}
	}
	return keys
}()

// HintError is a hint that is unknown, malformed, or not allowed here.
type HintError struct {
	Key    string // of the annotation, with its prefix
	Value  string // as the pod has it
	Reason string // what is wrong, and what is allowed
}

// Error names the annotation, its value (cut short if it is long) and what is
// allowed.
func (e *HintError) Error() string {
	return "annotation " + shorten(e.Key) + ": " + quote(e.Value) + ": " + e.Reason
}

// shorten returns a key as it is, or quoted where it could break a log line.
func shorten(key string) string {
	if q := quote(key); len(q) != len(key)+2 {
		return q
	}
	return key
}

// HintErrors are all the hints of a pod that are wrong, sorted by key.
type HintErrors []*HintError

// maxHintErrors bounds how many bad hints an error tells: a pod may have
// thousands of annotations.
const maxHintErrors = 16

// Error lists the hints, and only counts those beyond the first sixteen.
func (e HintErrors) Error() string {
	var b strings.Builder
	for i, err := range e {
		if i == maxHintErrors {
			fmt.Fprintf(&b, "; and %d more", len(e)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap gives each hint to errors.As.
func (e HintErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

func hasHints(annotations map[string]string) bool {
	for key := range annotations {
		if isHint(key) {
			return true
		}
	}
	return false
}

// isHint reports whether an annotation has the prefix, in whatever case: in
// another one it is a slip, which must not go unnoticed.
func isHint(key string) bool {
	return len(key) >= len(HintPrefix) && strings.EqualFold(key[:len(HintPrefix)], HintPrefix)
}

// withHints applies the hints, each against the value in force without any.
func (d Effective) withHints(annotations map[string]string) (Effective, error) {
	hinted := d
	var errs HintErrors
	for key, value := range annotations {
		if !isHint(key) {
			continue
		}
		if err := d.hint(&hinted, key, value); err != nil {
			errs = append(errs, &HintError{Key: key, Value: value, Reason: err.Error()})
		}
	}
	if errs != nil {
		slices.SortFunc(errs, func(a, b *HintError) int { return cmp.Compare(a.Key, b.Key) })
		return d, errs
	}
	return hinted, nil
}

// hint applies one hint to hinted, if d, what is in force, lets it. The error
// is the reason why not.
func (d *Effective) hint(hinted *Effective, key, value string) error {
	k, ok := hintKeys[key]
	if !ok {
		return unknownHint(key)
	}
	directive := &table[k]
	var wanted Directives
	if err := directive.parse(value, &wanted); err != nil {
		return err
	}
	switch d.Hints {
	case Allow:
		if err := directive.choose(&d.Directives, &wanted); err != nil {
			return err
		}
	default:
		if directive.equal(&d.Directives, &wanted) {
			return nil
		}
		if !directive.tightens(&d.Directives, &wanted) {
			return fmt.Errorf("without the hint it is %s (%s), which a hint may only tighten: %s",
				d.Value(k), d.SetBy(k), allowed(directive.within(&d.Directives)))
		}
	}
	directive.copy(&hinted.Directives, &wanted)
	hinted.levels[k] = fromHint
	return nil
}

// unknownHint says which key was meant, or else which there are.
func unknownHint(key string) error {
	var names []string
	for _, d := range table {
		if d.hint != "" {
			names = append(names, d.hint)
		}
	}
	if near := tomlfile.Nearest(key[len(HintPrefix):], names); near != "" {
		return errors.New("unknown key: did you mean " + HintPrefix + near + "?")
	}
	return errors.New("unknown key: " + allowed(HintPrefix+strings.Join(names, ", "+HintPrefix)))
}
