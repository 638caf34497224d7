// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// specification is the whole decision. The first row that fits decides; "*"
// fits everything, "|" separates alternatives. Directives: max_age is 10m,
// max_stale is 24h, on.* has its defaults.
//
//	reference  tag | digest
//	node       nothing; broken: a record whose image cannot run; foreign: an image from a host
//	           that is not allowed; fresh: checked 5m ago; image: 1h ago; old: 48h ago
//	caller     granted: has proved that it may have the image, or nobody has to; open: nobody
//	           knows whose it is, and access is Verified; not
//	registry   unasked; same digest as the record; other digest (and the caller may have the
//	           cached digest too: other+yes, or not: other+no, or no registry can say:
//	           other+unsaid); unreachable (after the caller might not have the cached digest:
//	           unreachable+no); forbidden; invalid. mirror-…: a mirror says so in the
//	           place of the registry, which is unreachable
const specification = `
reference  policy               node            caller   registry     → does       outcome     reason
# Before a registry is asked
digest     *                    fresh|image|old granted  unasked      → Reuse      Present     digest
*          IfNotPresent|Never   fresh|image|old granted  unasked      → Reuse      Present     policy
digest     Never                fresh|image|old open     unasked      → Reuse      Present     digest
*          Never                fresh|image|old open     unasked      → Reuse      Present     policy
*          Never                fresh|image|old not      unasked      → Fail       Failed      unproved
*          Never                *               *        unasked      → Fail       Failed      absent
*          *                    fresh           granted  unasked      → Reuse      Fresh       max_age
*          *                    *               *        unasked      → Ask        -           -
# The registry has the digest that the node has
*          *                    foreign         *        same         → Reverify   Pulled      source
digest     *                    fresh|image|old *        same         → Reuse      Unchanged   proved
*          IfNotPresent         fresh|image|old *        same         → Reuse      Unchanged   proved
*          *                    fresh|image|old *        same         → Reuse      Unchanged   same_digest
# It has another one
digest     *                    fresh|image|old *        other        → AskCached  -           -
*          IfNotPresent         fresh|image|old *        other        → AskCached  -           -
digest     *                    fresh|image|old *        other+yes    → Reuse      Unchanged   proved
*          IfNotPresent         fresh|image|old *        other+yes    → Reuse      Unchanged   proved
digest     *                    fresh|image|old open     other+unsaid → Reuse      Present     digest
*          IfNotPresent         fresh|image|old open     other+unsaid → Reuse      Present     policy
*          *                    fresh|image|old *        other*       → Pull       Pulled      changed
*          *                    broken          *        same|other*  → Pull       Pulled      incomplete
*          *                    *               *        same|other*  → Pull       Pulled      absent
# A mirror answers in its place
*          *                    foreign         *        mirror-same  → Reverify   Pulled      mirror_fallback
digest     *                    fresh|image|old *        mirror-same  → Reuse      Unchanged   proved
*          IfNotPresent         fresh|image|old *        mirror-same  → Reuse      Unchanged   proved
*          *                    fresh|image|old *        mirror-same  → Reuse      UsedCached  mirror_fallback
digest     *                    fresh|image|old *        mirror-other → AskCached  -           -
*          IfNotPresent         fresh|image|old *        mirror-other → AskCached  -           -
digest     *                    fresh|image|old *        mirror-other+yes → Reuse  Unchanged   proved
*          IfNotPresent         fresh|image|old *        mirror-other+yes → Reuse  Unchanged   proved
*          *                    *               *        mirror-*     → Pull       Pulled      mirror_fallback
# It fails, in the check or in the pull
digest     *                    fresh|image|old open     unreachable  → Reuse      Present     digest
*          IfNotPresent         fresh|image|old open     unreachable  → Reuse      Present     policy
*          IfDigestChanged      fresh|image     granted  unreachable* → Reuse      UsedCached  unreachable
*          IfDigestChanged      fresh|image     open     unreachable  → Reuse      UsedCached  unreachable
*          IfDigestChanged      old             granted  unreachable* → Fail       Failed      max_stale
*          IfDigestChanged      old             open     unreachable  → Fail       Failed      max_stale
*          *                    *               *        unreachable* → Fail       Failed      unreachable
*          *                    fresh|image|old open     forbidden    → Fail       Failed      forbidden
*          *                    fresh|image|old open     invalid      → Fail       Failed      invalid
*          *                    *               *        forbidden    → Fail       Failed      forbidden
*          *                    *               *        invalid      → Fail       Failed      invalid
`

// row is a line of the specification.
type row struct {
	conditions [5]string
	does       [3]string
	matched    bool
}

func (r *row) fits(values [5]string) bool {
	for i, condition := range r.conditions {
		ok := slices.ContainsFunc(strings.Split(condition, "|"), func(alternative string) bool {
			prefix, open := strings.CutSuffix(alternative, "*")
			return alternative == values[i] || open && strings.HasPrefix(values[i], prefix)
		})
		if !ok {
			return false
		}
	}
	return true
}

func specificationRows(t *testing.T) (rows []*row) {
	t.Helper()
	for line := range strings.Lines(specification) {
		before, after, ok := strings.Cut(line, "→")
		if !ok || strings.HasPrefix(line, "reference") {
			continue
		}
		r := &row{}
		if copy(r.conditions[:], strings.Fields(before)) != 5 || copy(r.does[:], strings.Fields(after)) != 3 {
			t.Fatalf("row %q", line)
		}
		rows = append(rows, r)
	}
	return rows
}

var doNames = map[Do]string{Ask: "Ask", AskCached: "AskCached", Reuse: "Reuse", Pull: "Pull", Reverify: "Reverify", Fail: "Fail"}

// localOf is the node's image, and what the caller may do with it.
func localOf(reference, node, caller string) Local {
	l := Local{Age: NeverChecked, ByDigest: reference == "digest"}
	if node == "nothing" {
		return l
	}
	l.Record = store.Record{Name: name, Target: first}
	switch node {
	case "broken":
		l.Broken = true
		return l
	case "foreign":
		l.ImageID, l.ForeignSource = "an image", true
		return l
	}
	l.ImageID = "an image"
	l.Age = map[string]Age{"fresh": Age(5 * time.Minute), "image": Age(time.Hour), "old": Age(48 * time.Hour)}[node]
	l.Grant = map[string]Grant{"granted": {Kind: GrantProved, By: alice}, "open": {Kind: GrantOpen}, "not": {Kind: GrantNone}}[caller]
	return l
}

var checkOf = map[string]Check{
	"unasked":          {},
	"same":             {Digest: first.Digest},
	"other":            {Digest: second.Digest},
	"other+yes":        {Digest: second.Digest, Cached: Confirmed},
	"other+no":         {Digest: second.Digest, Cached: NotConfirmed},
	"other+unsaid":     {Digest: second.Digest, Cached: Unsaid},
	"mirror-same":      {Digest: first.Digest, OriginFailed: failure.Unreachable},
	"mirror-other":     {Digest: second.Digest, OriginFailed: failure.Unreachable},
	"mirror-other+yes": {Digest: second.Digest, OriginFailed: failure.Unreachable, Cached: Confirmed},
	"mirror-other+no":  {Digest: second.Digest, OriginFailed: failure.Unreachable, Cached: NotConfirmed},
	"unreachable":      {Class: failure.Unreachable},
	"unreachable+no":   {Class: failure.Unreachable, Cached: NotConfirmed},
	"forbidden":        {Class: failure.Forbidden},
	"invalid":          {Class: failure.Invalid},
}

// Every combination of reference, policy, node, caller and registry does what
// the specification says, and every row of it counts.
func TestDecide(t *testing.T) {
	rows := specificationRows(t)
	directives := policy.Defaults()
	directives.MaxAge, directives.MaxStale = 10*time.Minute, 24*time.Hour
	for _, reference := range []string{"tag", "digest"} {
		for _, p := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
			directives.Policy = p
			for _, node := range []string{"nothing", "broken", "foreign", "fresh", "image", "old"} {
				for _, caller := range []string{"granted", "open", "not"} {
					for registry, check := range checkOf {
						values := [5]string{reference, p.String(), node, caller, registry}
						i := slices.IndexFunc(rows, func(r *row) bool { return r.fits(values) })
						if i < 0 {
							t.Fatalf("no row for %v", values)
						}
						rows[i].matched = true
						a := Decide(directives, localOf(reference, node, caller), check)
						does := [3]string{doNames[a.Do], string(a.Kind), string(a.Reason)}
						if a.Do == Ask || a.Do == AskCached {
							does = [3]string{doNames[a.Do], "-", "-"}
						}
						if does != rows[i].does {
							t.Errorf("%v: %v, specified is %v", values, does, rows[i].does)
						}
					}
				}
			}
		}
	}
	for _, r := range rows {
		if !r.matched {
			t.Errorf("nothing fits the row %v", r.conditions)
		}
	}
}

// Whatever the failure classes are set to, no refusal and no broken answer opens
// an image: that is for registries that cannot say.
func TestDecideOpensWhereNobodyCanSay(t *testing.T) {
	for _, p := range []policy.PullPolicy{policy.IfDigestChanged, policy.IfNotPresent} {
		for _, class := range failure.All() {
			directives := policy.Defaults()
			directives.Policy, directives.On = p, failure.SetOf(failure.All()...)
			want := Fail
			switch class {
			case failure.Unreachable, failure.Unavailable, failure.RateLimited, failure.NotFound:
				want = Reuse
			}
			if a := Decide(directives, localOf("tag", "image", "open"), Check{Class: class}); a.Do != want {
				t.Errorf("%s, %s: %s", p, class, doNames[a.Do])
			}
		}
	}
}

// A caller who may not have the cached image learns nothing of it.
func TestDecideTellsNothingToOthers(t *testing.T) {
	for _, p := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent} {
		for _, class := range failure.All() {
			directives := policy.Defaults()
			directives.Policy = p
			image := Decide(directives, localOf("tag", "image", "not"), Check{Class: class})
			nothing := Decide(directives, localOf("tag", "nothing", "not"), Check{Class: class})
			if image.Do != nothing.Do || image.Reason != nothing.Reason {
				t.Errorf("%s, %s: %v with an image, %v without", p, class, image, nothing)
			}
		}
	}
}

// The directives that took part are told, with those of the failure class.
func TestDecideTellsItsDirectives(t *testing.T) {
	directives := policy.Defaults()
	directives.Policy, directives.MaxStale, directives.MaxAge = policy.IfDigestChanged, time.Hour, time.Minute
	open := Local{ImageID: "an image", Grant: Grant{Kind: GrantAny}, Age: Age(2 * time.Minute)}
	for _, tc := range []struct {
		local Local
		check Check
		want  []policy.Key
	}{
		{Local{}, Check{}, nil},
		{localOf("tag", "foreign", ""), Check{}, []policy.Key{policy.KeyAllowedSources}},
		{open, Check{}, []policy.Key{policy.KeyAccess, policy.KeyMaxAge}},
		{open, Check{Class: failure.NotFound}, []policy.Key{policy.KeyAccess, keyOn(failure.NotFound), policy.KeyMaxStale}},
		{open, Check{Class: failure.Invalid}, []policy.Key{policy.KeyAccess, keyOn(failure.Invalid)}},
		{localOf("tag", "image", "not"), Check{Class: failure.NotFound}, []policy.Key{policy.KeyAccess}},
	} {
		if got := Decide(directives, tc.local, tc.check).Used; !slices.Equal(got, tc.want) {
			t.Errorf("%+v, %+v: used %v, want %v", tc.local, tc.check, got, tc.want)
		}
	}
}

// keyOn is the directive for a failure class.
func keyOn(class failure.Class) policy.Key {
	k, _ := policy.KeyOn(class)
	return k
}

// The registry client hears of exactly those failures that the decision would
// answer with the cached image.
func TestFallbacks(t *testing.T) {
	directives := policy.Defaults()
	for _, tc := range []struct {
		policy policy.PullPolicy
		local  Local
		want   failure.Set
	}{
		{policy.IfDigestChanged, localOf("tag", "image", "granted"), failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited, failure.NotFound)},
		{policy.IfDigestChanged, localOf("tag", "image", "not"), failure.SetOf()},
		{policy.IfDigestChanged, localOf("tag", "broken", "granted"), failure.SetOf()},
		{policy.IfDigestChanged, localOf("tag", "foreign", "granted"), failure.SetOf()},
		{policy.Always, localOf("tag", "image", "granted"), failure.SetOf()},
		{policy.IfNotPresent, localOf("tag", "image", "not"), failure.SetOf()},
	} {
		directives.Policy = tc.policy
		if got := fallbacks(directives, tc.local, heard{}); got != tc.want {
			t.Errorf("%s: %v, want %v", fmt.Sprint(tc.policy), got, tc.want)
		}
	}
}
