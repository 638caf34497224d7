// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PullPolicy is what an image pull policy does. The zero value is Always.
type PullPolicy uint8

// The policies, strictest first; Never stands apart.
const (
	Always          PullPolicy = iota // ask the registry; any failure fails
	IfDigestChanged                   // ask the registry; a failure is judged by its class
	IfNotPresent                      // pull what is absent, do not ask about what is present
	Never                             // never pull
)

// HintMode is how much a hint, which is tenant input, may say. The zero value
// is Allow.
type HintMode uint8

const (
	Allow   HintMode = iota // hints choose, but do not relax security classes
	Tighten                 // hints may only make the outcome stricter
	Ignore                  // hints are not read
)

// ResolveFrom is who may say which digest a tag has, later ones stricter. The zero
// value is Mirrors.
type ResolveFrom uint8

const (
	Mirrors           ResolveFrom = iota // the hosts of hosts.toml, in their order
	OriginThenMirrors                    // the registry that the name says; the others where it is unreachable or unavailable
	Origin                               // only the registry that the name says
)

// Access is who may reuse an image that is there without asking a registry.
// The zero value is Strict.
type Access uint8

const (
	Strict   Access = iota // those who proved that they may have it
	Verified               // those, and everybody an image of which no registry can say whose it is
	Any                    // everybody
)

// AccessIdentity is whose a proof of access is. The zero value is Credentials.
type AccessIdentity uint8

const (
	Credentials AccessIdentity = iota // of those who have the credentials that were shown
	Namespace                         // of all pods of the Kubernetes namespace that gave it
)

// Mode is whether decisions take effect. The zero value is Enforce.
type Mode uint8

const (
	Enforce Mode = iota // they do
	Observe             // they are only told: images are pulled as containerd does it by itself
)

// Govern is which questions of the kubelet the policy holds for. The zero value is
// Pulls.
type Govern uint8

const (
	Pulls  Govern = iota // requests to pull an image
	Starts               // also those whether an image is there, which precede the start of a container
)

// CheckWith is what a check of a tag reads. The zero value is Head.
type CheckWith uint8

const (
	Head     CheckWith = iota // the digest alone, by a HEAD where the registry has one
	Manifest                  // the manifest, too: registries behind a scanner refuse only that
)

// Action is what follows a failure. The zero value is Fail.
type Action uint8

const (
	Fail      Action = iota // the pull fails
	UseCached               // the image that is there is used
)

// enum is the names of a type's values, in the order of the values.
type enum[T ~uint8] []string

var (
	policies    = enum[PullPolicy]{"Always", "IfDigestChanged", "IfNotPresent", "Never"}
	hintModes   = enum[HintMode]{"Allow", "Tighten", "Ignore"}
	resolveFrom = enum[ResolveFrom]{"Mirrors", "OriginThenMirrors", "Origin"}
	access      = enum[Access]{"Strict", "Verified", "Any"}
	identities  = enum[AccessIdentity]{"Credentials", "Namespace"}
	modes       = enum[Mode]{"Enforce", "Observe"}
	governs     = enum[Govern]{"Pulls", "Starts"}
	checks      = enum[CheckWith]{"Head", "Manifest"}
	actions     = enum[Action]{"Fail", "UseCached"}
)

// alias is the name that KEP-5497 has for IfDigestChanged.
const alias = "IfNewerNotPresent"

func parsePolicy(text string) (PullPolicy, error) {
	if text == alias {
		return IfDigestChanged, nil
	}
	return policies.parse(text)
}

// parse returns the value of that name, or what would be right.
func (e enum[T]) parse(text string) (T, error) {
	if i := slices.Index(e, text); i >= 0 {
		return T(i), nil
	}
	return 0, errors.New(allowed(strings.Join(e, ", ")))
}

func (e enum[T]) format(v T) string {
	if int(v) < len(e) {
		return e[v]
	}
	return "invalid " + strconv.Itoa(int(v))
}

// String returns the name as configuration spells it.
func (m PullPolicy) String() string { return policies.format(m) }

// String returns the name as configuration spells it.
func (m HintMode) String() string { return hintModes.format(m) }

// String returns the name as configuration spells it.
func (r ResolveFrom) String() string { return resolveFrom.format(r) }

// String returns the name as configuration spells it.
func (a Access) String() string { return access.format(a) }

// String returns the name as configuration spells it.
func (i AccessIdentity) String() string { return identities.format(i) }

// String returns the name as configuration spells it.
func (m Mode) String() string { return modes.format(m) }

// String returns the name as configuration spells it.
func (g Govern) String() string { return governs.format(g) }

// String returns the name as configuration spells it.
func (c CheckWith) String() string { return checks.format(c) }

// String returns the name as configuration spells it.
func (a Action) String() string { return actions.format(a) }

// UnmarshalText accepts the names, and IfNewerNotPresent for IfDigestChanged.
// Any other text is an error that lists what is allowed.
func (m *PullPolicy) UnmarshalText(text []byte) error { return unmarshal(m, text, parsePolicy) }

// UnmarshalText accepts the names. Any other text is an error that lists them.
func (m *HintMode) UnmarshalText(text []byte) error { return unmarshal(m, text, hintModes.parse) }

// UnmarshalText accepts the names. Any other text is an error that lists them.
func (r *ResolveFrom) UnmarshalText(text []byte) error {
	return unmarshal(r, text, resolveFrom.parse)
}

// UnmarshalText accepts the names. Any other text is an error that lists them.
func (a *Access) UnmarshalText(text []byte) error { return unmarshal(a, text, access.parse) }

// UnmarshalText accepts the names. Any other text is an error that lists them.
func (a *Action) UnmarshalText(text []byte) error { return unmarshal(a, text, actions.parse) }

// unmarshal sets into to what text says. The errors of parse say what is
// allowed; this adds what was found.
func unmarshal[T any](into *T, text []byte, parse func(string) (T, error)) error {
	v, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", quote(string(text)), err)
	}
	*into = v
	return nil
}

// allowed ends an error: it names the one value, or the values, that would do.
func allowed(values string) string {
	if strings.Contains(values, ", ") {
		return "allowed are " + values
	}
	return "allowed is " + values
}

// maxQuoted bounds, in bytes, how much of a bad value an error repeats.
const maxQuoted = 80

// quote makes text fit for an error or a log line, whatever is in it.
func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(text[:maxQuoted]) + "..."
	}
	return strconv.Quote(text)
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("allowed are durations from 0s, such as 90s, 10m or 24h")
	}
	return d, nil
}

// maxCount bounds counts: more is as good as no bound.
const maxCount = 1_000_000

// parseCount accepts decimal numbers.
func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxCount {
		return 0, errors.New("allowed are numbers from 0, which is no bound, to " + strconv.Itoa(maxCount))
	}
	return n, nil
}

// parseBool accepts what TOML does.
func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New(allowed("true, false"))
	}
	return text == "true", nil
}

func parsePositive(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("allowed are durations longer than 0s, such as 500ms or 5s")
	}
	return d, nil
}

// formatDuration is d.String() without units that are zero: 10m, not 10m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
