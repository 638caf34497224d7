// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A hint may ask for a verify_timeout in these bounds: less could not be
// answered, more would hold the kubelet's worker.
const (
	minHintedTimeout = 100 * time.Millisecond
	maxHintedTimeout = 2 * time.Minute
)

// table is the one description of each directive: rules, plugin section, hints
// and log lines all read it.
var table = newTable()

func newTable() [keyCount]directive {
	t := [keyCount]directive{
		KeyPolicy: spec[PullPolicy]{
			name: "policy", at: func(d *Directives) *PullPolicy { return &d.Policy },
			parse: parsePolicy, format: PullPolicy.String,
			stricter: func(inForce, wanted PullPolicy) bool { return wanted < inForce && inForce != Never },
			within:   policies.within,
		}.directive(),
		KeyMaxAge:        maxAge.directive(),
		KeyMaxStale:      maxStale.directive(),
		KeyVerifyTimeout: verifyTimeout.directive(),
		KeyResolveFrom: spec[ResolveFrom]{
			name: "resolve_from", at: func(d *Directives) *ResolveFrom { return &d.ResolveFrom },
			parse: resolveFrom.parse, format: ResolveFrom.String,
			stricter: func(_, wanted ResolveFrom) bool { return wanted == Origin },
			within:   resolveFrom.within,
		}.directive(),
		// No hint has a say in who may have an image, and from where.
		KeyAccess: spec[Access]{
			name: "access", at: func(d *Directives) *Access { return &d.Access },
			parse: access.parse, format: Access.String,
		}.directive(),
		KeyAccessTTL: spec[time.Duration]{
			name: "access_ttl", at: func(d *Directives) *time.Duration { return &d.AccessTTL },
			parse: parseDuration, format: formatDuration,
		}.directive(),
		KeyAllowedSources: spec[Sources]{
			name: "allowed_sources", at: func(d *Directives) *Sources { return &d.AllowedSources },
			parse: parseSources, format: Sources.String,
		}.directive(),
		KeyHints: spec[HintMode]{
			name: "hints", at: func(d *Directives) *HintMode { return &d.Hints },
			parse: hintModes.parse, format: HintMode.String,
		}.directive(),
	}
	for i, class := range failure.All() {
		t[KeyOnUnreachable+Key(i)] = onFailure(class).directive()
	}
	return t
}

var maxAge = spec[time.Duration]{
	name: "max_age", at: func(d *Directives) *time.Duration { return &d.MaxAge },
	parse: parseDuration, format: formatDuration,
	stricter: func(inForce, wanted time.Duration) bool { return wanted < inForce },
	within: func(inForce time.Duration, _ func(time.Duration) bool) string {
		if inForce == 0 {
			return "0s"
		}
		return "0s to " + formatDuration(inForce)
	},
}

var maxStale = spec[time.Duration]{
	name: "max_stale", at: func(d *Directives) *time.Duration { return &d.MaxStale },
	parse: parseDuration, format: formatDuration,
	// 0 is no bound.
	stricter: func(inForce, wanted time.Duration) bool {
		return wanted != 0 && (inForce == 0 || wanted < inForce)
	},
	within: func(inForce time.Duration, _ func(time.Duration) bool) string {
		return "more than 0s and up to " + formatDuration(inForce)
	},
}

var verifyTimeout = spec[time.Duration]{
	name: "verify_timeout", at: func(d *Directives) *time.Duration { return &d.VerifyTimeout },
	parse: parsePositive, format: formatDuration,
	choose: func(_, wanted time.Duration) error {
		if wanted < minHintedTimeout || wanted > maxHintedTimeout {
			return errors.New("allowed for a hint is " + formatDuration(minHintedTimeout) + " to " + formatDuration(maxHintedTimeout))
		}
		return nil
	},
	// Neither longer nor shorter is stricter.
	stricter: func(_, _ time.Duration) bool { return false },
	within:   func(inForce time.Duration, _ func(time.Duration) bool) string { return formatDuration(inForce) },
}

// onFailure describes the directive for a failure class. No hint relaxes those
// of the security classes.
func onFailure(class failure.Class) spec[Action] {
	on := spec[Action]{
		name: "on." + string(class), at: func(d *Directives) *Action { return d.On.of(class) },
		parse: actions.parse, format: Action.String,
		stricter: func(_, wanted Action) bool { return wanted == Fail },
		within:   actions.within,
	}
	if class.Security() {
		on.choose = func(inForce, wanted Action) error {
			if inForce == Fail && wanted == UseCached {
				return errors.New("a hint cannot relax this: " + allowed(Fail.String()))
			}
			return nil
		}
	}
	return on
}

// spec describes a directive whose values are of type T.
type spec[T comparable] struct {
	name   string
	at     func(*Directives) *T
	parse  func(string) (T, error) // the error says what is allowed
	format func(T) string

	// For hints. choose judges under Allow, nil = all is well. stricter tells
	// what Tighten lets pass beside the value in force, nil = no hint has this
	// directive; within puts into words which values those are.
	choose   func(inForce, wanted T) error
	stricter func(inForce, wanted T) bool
	within   func(inForce T, stricter func(wanted T) bool) string
}

// within lists the value in force and those that are stricter.
func (e enum[T]) within(inForce T, stricter func(wanted T) bool) string {
	var names []string
	for i, name := range e {
		if T(i) == inForce || stricter(T(i)) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// directive is a spec without its type.
type directive struct {
	name string // in a rule: max_age, on.not_found
	hint string // after the prefix of hints: max-age, on-not-found; "" = not for hints

	parse  func(text string, into *Directives) error
	format func(*Directives) string
	copy   func(into, from *Directives)

	choose   func(inForce, wanted *Directives) error // Allow
	tightens func(inForce, wanted *Directives) bool  // Tighten; true if stricter
	equal    func(inForce, wanted *Directives) bool
	within   func(inForce *Directives) string
}

func (s spec[T]) directive() directive {
	d := directive{
		name: s.name,
		parse: func(text string, into *Directives) error {
			v, err := s.parse(text)
			if err == nil {
				*s.at(into) = v
			}
			return err
		},
		format: func(d *Directives) string { return s.format(*s.at(d)) },
		copy:   func(into, from *Directives) { *s.at(into) = *s.at(from) },
		equal:  func(inForce, wanted *Directives) bool { return *s.at(inForce) == *s.at(wanted) },
	}
	if s.stricter == nil {
		return d
	}
	d.hint = strings.NewReplacer("_", "-", ".", "-").Replace(s.name)
	d.choose = func(inForce, wanted *Directives) error {
		if s.choose == nil {
			return nil
		}
		return s.choose(*s.at(inForce), *s.at(wanted))
	}
	d.tightens = func(inForce, wanted *Directives) bool { return s.stricter(*s.at(inForce), *s.at(wanted)) }
	d.within = func(inForce *Directives) string {
		return s.within(*s.at(inForce), func(wanted T) bool { return s.stricter(*s.at(inForce), wanted) })
	}
	return d
}
