// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// rules checks the rule files of one directory, in their order. section are the
// directives below them.
func (c *checker) rules(files []rules.File, section policy.Overrides) {
	var (
		all       []policy.Rule
		documents []*document // of each rule
	)
	for _, f := range files {
		d := c.document(f.Path, f.Data)
		parsed, err := policy.ParseRules(f.Path, f.Data)
		d.errors(err)
		for _, r := range parsed {
			all, documents = append(all, r), append(documents, d)
		}
	}
	advice, _ := policy.Advise(all)
	never := map[*policy.Rule]bool{}
	of := map[*policy.Rule]*document{}
	for i := range all {
		of[&all[i]] = documents[i]
	}
	for i := range advice {
		a := &advice[i]
		ruleDocument{of[a.Rule], a.Rule}.advice(a)
		never[a.Rule] = never[a.Rule] || a.Kind == policy.NeverDecides
	}
	effective := policy.NewRules(section, all).All()
	c.pins = c.pins || slices.ContainsFunc(effective, func(e policy.Effective) bool { return e.Pin })
	for i := range all {
		if !never[&all[i]] {
			r := ruleDocument{documents[i], &all[i]}
			r.directives(effective[i])
			r.startsByDigest(effective)
		}
	}
}

// ruleDocument is a rule in its file.
type ruleDocument struct {
	*document
	rule *policy.Rule
}

func (r ruleDocument) path() string { return tomlfile.Element("rule", r.rule.Number) }

// advice reports what the daemon warns of, too.
func (r ruleDocument) advice(a *policy.Advice) {
	path := r.path()
	if a.Key != "" {
		path = tomlfile.Element(path+"."+a.Key, a.Element)
	}
	r.addAt(map[policy.AdviceKind]ID{policy.NeverDecides: NeverDecides, policy.MatchesNothing: MatchesNothing}[a.Kind], a.Text, path)
}

// directives reports what the directives of a rule, in force together with those
// below it, surely do not mean.
func (r ruleDocument) directives(e policy.Effective) {
	key := func(k policy.Key) string { return r.path() + "." + k.String() }
	if r.rule.Overrides.Has(policy.KeyAccess) && e.Access == policy.Any && r.rule.MatchesAll() {
		r.addAt(AnyForAll, anyForAll, key(policy.KeyAccess))
	}
	if r.rule.Overrides.Has(policy.KeyPin) && e.Pin && r.rule.MatchesAll() && r.unlimited {
		r.addAt(PinsEverything, pinsEverything, key(policy.KeyPin))
	}
	r.manifestsOfDockerHub(e, key)
	r.document.directives(r.rule.Overrides, e, key)
}

const anyForAll = "every pod of the node may use every image that is there, private ones included"

const pinsEverything = "the current image of every tag stays on the node, used or not, and pin_limit bounds nothing: the disk may get full, and the kubelet cannot help it"

// directives reports directives that one level sets, of which e are in force.
func (d *document) directives(set policy.Overrides, e policy.Effective, path func(policy.Key) string) {
	if e.MaxStale > 0 && e.MaxStale < e.MaxAge && (set.Has(policy.KeyMaxStale) || set.Has(policy.KeyMaxAge)) {
		d.addAt(StaleBelowAge, fmt.Sprintf("max_stale (%s) is below max_age (%s): a check that still counts is too old for a fallback",
			e.Value(policy.KeyMaxStale), e.Value(policy.KeyMaxAge)), path(policy.KeyMaxStale), path(policy.KeyMaxAge))
	}
	for _, k := range policy.Keys() {
		if set.Has(k) && !counts(k, e.Directives) {
			d.addAt(NoEffect, fmt.Sprintf("%s has no effect: the policy is %s, and no hint can change that", k, e.Policy), path(k))
		}
	}
	if set.Has(policy.KeyAccessIdentity) && e.AccessIdentity != policy.Credentials && e.Access == policy.Any {
		d.addAt(IdentityOfAny, fmt.Sprintf("access_identity = %q has no meaning under %s: every pod reuses what is there, of whatever namespace, with a proof or without",
			e.Value(policy.KeyAccessIdentity), e.Describe(policy.KeyAccess)), path(policy.KeyAccessIdentity))
	}
	d.manifests(set, e, path)
	if set.Has(policy.KeyPullDeadline) && set.Has(policy.KeyPolicy) && e.Policy != policy.IfDigestChanged && counts(policy.KeyPullDeadline, e.Directives) {
		d.addAt(DeadlineUnused, fmt.Sprintf("pull_deadline counts under IfDigestChanged only, and the policy beside it is %s: it is for pods alone whose hint chooses the other policy",
			e.Policy), path(policy.KeyPullDeadline))
	}
	if set.Has(policy.KeyPin) && e.Pin && e.Policy == policy.Never && !canBe(e.Directives, policy.IfNotPresent) {
		d.addAt(PinsNothing, "under the policy Never no image is pulled or confirmed, and what was imported is not pinned: only images from before are", path(policy.KeyPin))
	}
	for _, class := range failure.All() {
		k, _ := policy.KeyOn(class)
		if class.Security() && set.Has(k) && e.On.Has(class) && e.Policy != policy.IfDigestChanged && canBe(e.Directives, policy.IfDigestChanged) {
			d.addAt(RelaxedByTenant, fmt.Sprintf("the policy is %s, under which nothing is relaxed, but a pod's hint may choose IfDigestChanged, and may start then although the registry says %s",
				e.Policy, class), path(k))
		}
	}
}

// counts reports whether a directive can have an effect under the policy in force,
// or under one that a hint may choose.
func counts(k policy.Key, d policy.Directives) bool {
	switch k {
	case policy.KeyMaxAge:
		return canBe(d, policy.Always) || canBe(d, policy.IfDigestChanged)
	case policy.KeyMaxStale, policy.KeyPullDeadline, policy.KeyChecksPerMinute:
		return canBe(d, policy.IfDigestChanged)
	case policy.KeyGovern:
		return d.Govern != policy.Starts || d.Access == policy.Strict || canBe(d, policy.Always) || canBe(d, policy.IfDigestChanged)
	case policy.KeyCheckWith:
		return d.Policy != policy.Never || d.Hints == policy.Allow
	case policy.KeyAccessTTL:
		return d.Access != policy.Any
	}
	for _, class := range failure.All() {
		if on, _ := policy.KeyOn(class); k == on {
			return canBe(d, policy.IfDigestChanged)
		}
	}
	return true
}

// canBe reports whether a policy is in force, or can be by a hint.
func canBe(d policy.Directives, p policy.PullPolicy) bool {
	switch {
	case d.Policy == p || d.Hints == policy.Allow:
		return true
	case d.Hints == policy.Ignore || d.Policy == policy.Never || p == policy.Never:
		return false
	}
	return p < d.Policy // the policies are in the order of their strictness
}
