// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Key names a directive.
type Key uint8

// The directives, in the order in which documentation shows them.
const (
	KeyPolicy Key = iota
	KeyMaxAge
	KeyMaxStale
	KeyVerifyTimeout
	KeyResolveFrom
	KeyAuthority
	KeyGovern
	KeyPullDeadline
	KeyCheckWith
	KeyChecksPerMinute
	KeyPin
	KeyAccess
	KeyAccessIdentity
	KeyAccessTTL
	KeyAllowedSources
	KeyMode
	KeyHints
	keyOn    // of the first failure class; the others follow in the order of failure.All
	keyCount = keyOn + Key(failure.Count)
)

// KeyOn returns the key of what to do about a class of failure. It is false
// for failure.None, about which there is nothing to do.
func KeyOn(class failure.Class) (Key, bool) {
	i := slices.Index(failure.All(), class)
	if i < 0 {
		return 0, false
	}
	return keyOn + Key(i), true
}

// Keys lists all directives.
func Keys() []Key {
	keys := make([]Key, keyCount)
	for i := range keys {
		keys[i] = Key(i)
	}
	return keys
}

// String returns the key as a rule spells it: max_age, on.not_found.
func (k Key) String() string { return table[k].name }

// Description is the line about the directive in config.toml.example.
func (k Key) Description() string { return table[k].describe }

// Directives are all directives of one pull, each with a value. Comparable.
type Directives struct {
	Policy PullPolicy

	// MaxAge is for how long a check counts at most; 0 = check each time.
	MaxAge time.Duration

	// MaxStale is how long ago the last check of a cached image may be for a
	// fallback to it; 0 = no bound.
	MaxStale time.Duration

	// VerifyTimeout bounds a whole check, all hosts and retries. Above 0.
	VerifyTimeout time.Duration

	ResolveFrom ResolveFrom

	// Authority are the hosts whose refusals and "not found" count like the
	// origin's.
	Authority Authority

	// Govern says which questions of the kubelet the policy holds for.
	Govern Govern

	// PullDeadline is for how long a request waits for a changed image while the
	// cached one would do. It counts under IfDigestChanged only.
	PullDeadline Deadline

	// CheckWith says what a check reads.
	CheckWith CheckWith

	// ChecksPerMinute is how many checks the node makes of one registry in a minute; 0 =
	// no bound. Checks beyond it use the cached image as after a 429: they are made all the
	// same where On does not say so, or where there is none.
	ChecksPerMinute int

	// Pin keeps the current images from the kubelet's garbage collection.
	Pin bool

	// Access says who may reuse an image without asking a registry.
	Access Access

	// AccessIdentity says whose a proof of access is.
	AccessIdentity AccessIdentity

	// AccessTTL is for how long a proof of access counts; 0 = until it is
	// refused.
	AccessTTL time.Duration

	// AllowedSources are the hosts that content may come from.
	AllowedSources Sources

	// Mode says whether the decision takes effect.
	Mode Mode

	// On are the classes of failure after which the cached image is used; a
	// request fails after the others. They count under IfDigestChanged only:
	// see [Directives.OnFailure].
	On    failure.Set
	Hints HintMode
}

// OnFailure says what follows a failed check, or a pull that failed after a
// change was seen. It is Fail under every policy but IfDigestChanged, and for
// what is no class of failure.
func (d Directives) OnFailure(class failure.Class) Action {
	if d.Policy == IfDigestChanged && d.On.Has(class) {
		return UseCached
	}
	return Fail
}

// AsksAlways reports whether the policy asks a registry for the digest of a tag
// whatever image the node has.
func (d Directives) AsksAlways() bool {
	return (d.Policy == Always || d.Policy == IfDigestChanged) && d.MaxAge == 0
}

// Value returns a directive's value as configuration spells it.
func (d Directives) Value(k Key) string { return table[k].format(&d) }

// Defaults returns what applies where nothing else is said.
func Defaults() Directives {
	return Directives{
		Policy:        Always,
		VerifyTimeout: 5 * time.Second,
		ResolveFrom:   Mirrors,
		Access:        Verified,
		On:            onDefault(),
		Hints:         Allow,
	}
}

// onDefault holds all classes but those of security.
func onDefault() (s failure.Set) {
	for _, class := range failure.All() {
		s = s.With(class, !class.Security())
	}
	return s
}

// Overrides are the directives that one level sets, the plugin section or a
// rule. The zero value sets none.
type Overrides struct {
	values Directives
	set    uint32 // a bit for each key
}

// Set sets a directive to what text says, as configuration spells it. The
// error says what is allowed; the directive is then as before.
func (o *Overrides) Set(k Key, text string) error {
	if err := table[k].parse(text, &o.values); err != nil {
		return err
	}
	o.set |= 1 << k
	return nil
}

// Value returns a directive's value as configuration spells it. It means nothing
// unless the directive is set.
func (o Overrides) Value(k Key) string { return o.values.Value(k) }

// Has reports whether the directive is set.
func (o Overrides) Has(k Key) bool { return o.set&(1<<k) != 0 }
