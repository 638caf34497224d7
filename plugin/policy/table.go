// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strconv"
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
			describe: "where no rule and no hint says otherwise: Always | IfDigestChanged | IfNotPresent | Never",
			parse:    parsePolicy, format: PullPolicy.String,
			stricter: func(inForce, wanted PullPolicy) bool { return wanted < inForce && inForce != Never },
			within:   policies.within,
		}.directive(),
		KeyMaxAge:        maxAge.directive(),
		KeyMaxStale:      maxStale.directive(),
		KeyVerifyTimeout: verifyTimeout.directive(),
		KeyResolveFrom: spec[ResolveFrom]{
			name: "resolve_from", at: func(d *Directives) *ResolveFrom { return &d.ResolveFrom },
			describe: "Mirrors: hosts.toml order | Origin: only the registry that the name says resolves the tag | OriginThenMirrors: mirrors' tags only where the origin is unreachable or unavailable",
			parse:    resolveFrom.parse, format: ResolveFrom.String,
			stricter: func(inForce, wanted ResolveFrom) bool { return wanted > inForce },
			// An authority is asked neither under Origin nor after the origin's yes, so that its
			// refusals would be passed over.
			keeps: func(inForce *Directives, wanted ResolveFrom) bool {
				return wanted == inForce.ResolveFrom || inForce.Authority.None()
			},
			within: resolveFrom.within,
		}.directive(),
		KeyPullDeadline: pullDeadline.directive(),
	}
	for k, d := range unhinted() {
		t[k] = d
	}
	for i, class := range failure.All() {
		t[keyOn+Key(i)] = onFailure(class).directive()
	}
	return t
}

// unhinted describes the directives on which no hint has a say: who may have an image,
// from where, how a registry is asked, what the node keeps, and when rules take effect.
func unhinted() map[Key]directive {
	return map[Key]directive{
		KeyAuthority: spec[Authority]{
			name: "authority", at: func(d *Directives) *Authority { return &d.Authority },
			describe: "globs on host[:port] whose refusals and \"not found\" count like the origin's; absent = none",
			parse:    parseAuthority, format: Authority.String,
		}.directive(),
		KeyGovern: spec[Govern]{
			name: "govern", at: func(d *Directives) *Govern { return &d.Govern },
			describe: "Pulls: the pulls that the kubelet asks for | Starts: every start of a container, also in pods with imagePullPolicy: IfNotPresent",
			parse:    governs.parse, format: Govern.String,
		}.directive(),
		KeyCheckWith: spec[CheckWith]{
			name: "check_with", at: func(d *Directives) *CheckWith { return &d.CheckWith },
			describe: "Head | Manifest: read the manifest too, for registries that refuse only that",
			parse:    checks.parse, format: CheckWith.String,
		}.directive(),
		KeyChecksPerMinute: spec[int]{
			name: "checks_per_minute", at: func(d *Directives) *int { return &d.ChecksPerMinute },
			describe: "of one registry, by the node: what is beyond uses the cached image, as rate_limited; 0 = no bound",
			parse:    parseCount, format: strconv.Itoa,
		}.directive(),
		KeyPin: spec[bool]{
			name: "pin", at: func(d *Directives) *bool { return &d.Pin },
			describe: "keep images that are current for their tag from the kubelet's garbage collection",
			parse:    parseBool, format: strconv.FormatBool,
		}.directive(),
		KeyAccess: spec[Access]{
			name: "access", at: func(d *Directives) *Access { return &d.Access },
			describe: "who may reuse a cached image: Strict: who proved it | Verified: also everybody, if no registry can say | Any: everybody",
			parse:    access.parse, format: Access.String,
		}.directive(),
		KeyAccessIdentity: spec[AccessIdentity]{
			name: "access_identity", at: func(d *Directives) *AccessIdentity { return &d.AccessIdentity },
			describe: "whose a proof of access is: Credentials: of who has the same ones | Namespace: of all pods of the namespace that gave it",
			parse:    identities.parse, format: AccessIdentity.String,
		}.directive(),
		KeyAccessTTL: spec[time.Duration]{
			name: "access_ttl", at: func(d *Directives) *time.Duration { return &d.AccessTTL },
			describe: "how long a proof of access lasts; 0s = until refused",
			parse:    parseDuration, format: formatDuration,
		}.directive(),
		KeyAllowedSources: spec[Sources]{
			name: "allowed_sources", at: func(d *Directives) *Sources { return &d.AllowedSources },
			describe: "globs on host[:port] that content may come from; absent = all",
			parse:    parseSources, format: Sources.String,
		}.directive(),
		KeyMode: spec[Mode]{
			name: "mode", at: func(d *Directives) *Mode { return &d.Mode },
			describe: "Enforce | Observe: pull as containerd does it by itself, and tell what would have been decided",
			parse:    modes.parse, format: Mode.String,
		}.directive(),
		KeyHints: spec[HintMode]{
			name: "hints", at: func(d *Directives) *HintMode { return &d.Hints },
			describe: "what pod annotations may say: Allow | Tighten | Ignore",
			parse:    hintModes.parse, format: HintMode.String,
		}.directive(),
	}
}

var maxAge = spec[time.Duration]{
	name: "max_age", at: func(d *Directives) *time.Duration { return &d.MaxAge },
	describe: "a check this young counts, at most: from half of it on, by chance, so that nodes do not check together; 0s = check each time",
	parse:    parseDuration, format: formatDuration,
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
	describe: "a cached fallback no older than this since its last check; 0s = no bound",
	parse:    parseDuration, format: formatDuration,
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
	describe: "the whole check, all hosts and retries",
	parse:    parsePositive, format: formatDuration,
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

var pullDeadline = spec[Deadline]{
	name: "pull_deadline", at: func(d *Directives) *Deadline { return &d.PullDeadline },
	describe: "how long a pod waits for a changed image while the cached one would do; 0s = not at all; absent = until it is there",
	parse:    parseDeadline, format: Deadline.String,
	stricter: func(inForce, wanted Deadline) bool { return inForce.before(wanted) },
	within: func(inForce Deadline, _ func(Deadline) bool) string {
		if _, bounded := inForce.Bound(); !bounded {
			return "none: leave the hint out"
		}
		return inForce.String() + " or longer"
	},
}

// onFailure describes the directive for a failure class. No hint relaxes those
// of the security classes.
func onFailure(class failure.Class) spec[Action] {
	on := spec[Action]{
		name: "on." + string(class), describe: class.Description(),
		get: func(d *Directives) Action {
			if d.On.Has(class) {
				return UseCached
			}
			return Fail
		},
		set:   func(d *Directives, a Action) { d.On = d.On.With(class, a == UseCached) },
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
	name     string
	describe string // for config.toml.example
	// at is where the value stands; get and set are for values without a place
	// of their own.
	at     func(*Directives) *T
	get    func(*Directives) T
	set    func(*Directives, T)
	parse  func(string) (T, error) // the error says what is allowed
	format func(T) string

	// For hints. choose judges under Allow, nil = all is well. stricter tells
	// what Tighten lets pass beside the value in force, nil = no hint has this
	// directive, unless keeps, nil = all is well, says that another directive in force would
	// be passed over; within puts into words which values those are.
	choose   func(inForce, wanted T) error
	stricter func(inForce, wanted T) bool
	keeps    func(inForce *Directives, wanted T) bool
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
	name     string // in a rule: max_age, on.not_found
	describe string
	hint     string // after the prefix of hints: max-age, on-not-found; "" = not for hints

	parse  func(text string, into *Directives) error
	format func(*Directives) string
	copy   func(into, from *Directives)

	choose   func(inForce, wanted *Directives) error // Allow
	tightens func(inForce, wanted *Directives) bool  // Tighten; true if stricter
	equal    func(inForce, wanted *Directives) bool
	within   func(inForce *Directives) string
}

func (s spec[T]) directive() directive {
	if s.at != nil {
		s.get = func(d *Directives) T { return *s.at(d) }
		s.set = func(d *Directives, v T) { *s.at(d) = v }
	}
	d := directive{
		name:     s.name,
		describe: s.describe,
		parse: func(text string, into *Directives) error {
			v, err := s.parse(text)
			if err == nil {
				s.set(into, v)
			}
			return err
		},
		format: func(d *Directives) string { return s.format(s.get(d)) },
		copy:   func(into, from *Directives) { s.set(into, s.get(from)) },
		equal:  func(inForce, wanted *Directives) bool { return s.get(inForce) == s.get(wanted) },
	}
	if s.stricter == nil {
		return d
	}
	d.hint = strings.NewReplacer("_", "-", ".", "-").Replace(s.name)
	d.choose = func(inForce, wanted *Directives) error {
		if s.choose == nil {
			return nil
		}
		return s.choose(s.get(inForce), s.get(wanted))
	}
	tightens := func(inForce *Directives, wanted T) bool {
		return s.stricter(s.get(inForce), wanted) && (s.keeps == nil || s.keeps(inForce, wanted))
	}
	d.tightens = func(inForce, wanted *Directives) bool { return tightens(inForce, s.get(wanted)) }
	d.within = func(inForce *Directives) string {
		return s.within(s.get(inForce), func(wanted T) bool { return tightens(inForce, wanted) })
	}
	return d
}
