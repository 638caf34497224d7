// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain tells what the engine has found out about a request in the words of
// the daemon's API. It is pure: it asks nobody.
package explain

import (
	"slices"

	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// New tells the explanation of a request for the subject.
func New(subject policy.Subject, x engine.Explanation) api.Explanation {
	a := api.Explanation{
		Reference: x.Name, Namespace: x.Namespace,
		Passed: passed(x.Directives.Passed(subject)), Directives: directives(x.Outcome),
		Hosts: hosts(x.Hosts), Local: local(x.Local), Caller: string(x.Caller),
		Asked: x.Asked, Attempts: attempts(x.Attempts),
		Outcome: string(x.Kind), Reason: string(x.Reason), Class: string(x.Class),
		Digest: x.Digest.String(), VerifiedBy: x.Host,
		Sentence: sentence(x),
	}
	if r := x.Directives.Rule; r != nil {
		place := placeOf(r)
		a.Rule = &place
	}
	if x.HostsErr != nil {
		a.HostsError = x.HostsErr.Error()
	}
	if x.Err != nil {
		a.Error = x.Err.Error()
	}
	if x.Kind == "" {
		a.Forecast = forecast(x.Forecast)
	}
	return a
}

func placeOf(r *policy.Rule) api.Rule { return api.Rule{File: r.File, Line: r.Line, Index: r.Number} }

func passed(rules []policy.Passed) []api.PassedRule {
	all := make([]api.PassedRule, len(rules))
	for i, p := range rules {
		all[i] = api.PassedRule{Rule: placeOf(p.Rule), Mismatch: string(p.Why)}
	}
	return all
}

func directives(o engine.Outcome) []api.Directive {
	var all []api.Directive
	for _, k := range policy.Keys() {
		all = append(all, api.Directive{
			Name: k.String(), Value: o.Directives.Value(k), Origin: o.Directives.SetBy(k), Used: slices.Contains(o.Used, k),
		})
	}
	return all
}

func hosts(states []resolver.HostState) []api.HostState {
	all := make([]api.HostState, len(states))
	for i, s := range states {
		h := api.HostState{Host: s.Host, Origin: s.Origin, State: stateOf(s), Capabilities: []string{}}
		if s.Resolve {
			h.Capabilities = append(h.Capabilities, "resolve")
		}
		if s.Pull {
			h.Capabilities = append(h.Capabilities, "pull")
		}
		if t := s.Trouble; t != nil {
			h.Class, h.Since, h.Until = string(t.Class), t.Since.UTC(), t.Until.UTC()
		}
		all[i] = h
	}
	return all
}

func stateOf(s resolver.HostState) string {
	switch {
	case !s.Allowed:
		return api.HostLeftOut
	case !s.Asked:
		return api.HostContentOnly
	case s.Trouble == nil:
		return api.HostAsked
	case s.Trouble.Open:
		return api.HostInTrouble
	case s.Trouble.Class != failure.None:
		return api.HostAvoided
	}
	return api.HostSuspected
}

// local is nil where there is no record.
func local(l engine.Local) *api.Local {
	r := l.Record
	if r.Target.Digest == "" {
		return nil
	}
	return &api.Local{
		Digest: r.Target.Digest.String(), Access: string(l.Grant.Kind), ProvedBy: string(l.Grant.By),
		Runnable: l.ImageID != "", ImageID: l.ImageID, ForeignSource: l.ForeignSource, Remote: l.Remote,
		PullSource: r.PullSource, ContentSources: append([]string{}, r.ContentSources...), PulledAt: r.PulledAt,
		VerifiedAt: r.Verified.At, VerifiedBy: r.Verified.By,
		StaleSince: r.Stale.Since, StaleReason: string(r.Stale.Reason),
	}
}

func attempts(failed []resolver.Attempt) []api.Attempt {
	all := make([]api.Attempt, len(failed))
	for i, a := range failed {
		all[i] = api.Attempt{Host: a.Host, Class: string(a.Class), Text: a.Err.Error()}
	}
	return all
}

func forecast(f engine.Forecast) *api.Forecast {
	useCached, fail := classes(f.UseCached)
	return &api.Forecast{
		Unchanged: foreseen(f.Unchanged), Changed: *foreseenOr(f.Changed), Overdue: foreseen(f.Overdue), CachedConfirmed: foreseen(f.CachedConfirmed), CachedUnsaid: foreseen(f.CachedUnsaid),
		UseCached: useCached, Fail: fail,
	}
}

// foreseen is nil for no action.
func foreseen(a engine.Action) *api.Foreseen {
	if a.Kind == "" {
		return nil
	}
	return foreseenOr(a)
}

func foreseenOr(a engine.Action) *api.Foreseen {
	return &api.Foreseen{Outcome: string(a.Kind), Reason: string(a.Reason)}
}

// classes are the names of the failure classes in the set, and of the others.
func classes(set failure.Set) (in, out []string) {
	in, out = []string{}, []string{}
	for _, class := range failure.All() {
		if set.Has(class) {
			in = append(in, string(class))
		} else {
			out = append(out, string(class))
		}
	}
	return in, out
}
