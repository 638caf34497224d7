// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"time"

	"pgregory.net/rapid"
)

// weights say how often steps of a kind are drawn.
type weights struct {
	name string
	of   [numKinds]int
}

// Histories of everything, and of kills in pulls, between which the registry
// changes and the node is looked at.
var (
	ofEverything = weights{"everything", [numKinds]int{DoPull: 80, DoPush: 24, DoTogether: 14, DoLeave: 8, DoMeanwhile: 12, DoDelete: 4, DoDeny: 8, DoAllow: 8,
		DoTrouble: 10, DoRestore: 24, DoRule: 8, DoRemove: 5, DoMirror: 10, DoTag: 6, DoImport: 6, DoRestart: 3, DoKill: 3, DoKillIn: 3}}
	ofKills = weights{"kills", [numKinds]int{DoPull: 10, DoPush: 24, DoTogether: 2, DoDeny: 2, DoAllow: 3, DoTrouble: 1, DoRestore: 3, DoRemove: 12, DoMirror: 1, DoTag: 1, DoImport: 1, DoRestart: 2, DoKill: 3, DoKillIn: 40}}
)

// oneOf draws one of the values, all alike: rapid's own SampledFrom prefers
// those that stand first. When it shrinks, these are preferred here, too.
func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.Custom(func(t *rapid.T) T {
		const bits = 10
		n := 0
		for range bits {
			n <<= 1
			if rapid.Bool().Draw(t, "bit") {
				n++
			}
		}
		return values[n*len(values)>>bits]
	}).Draw(t, label)
}

// upTo draws a number from low to high.
func upTo(t *rapid.T, label string, low, high int) int {
	var all []int
	for i := low; i <= high; i++ {
		all = append(all, i)
	}
	return oneOf(t, label, all...)
}

// draw draws a step.
func (w weights) draw(t *rapid.T) Op {
	var kinds []Kind
	for kind, weight := range w.of {
		for range weight {
			kinds = append(kinds, Kind(kind))
		}
	}
	return drawOp(t, oneOf(t, "kind", kinds...))
}

func drawOp(t *rapid.T, kind Kind) Op {
	o := Op{Kind: kind}
	switch kind {
	case DoPull, DoKill, DoRestart:
		o.Pulls = []Pull{drawPull(t)}
	case DoTogether:
		o.Pulls = drawTogether(t, 2, 4)
	case DoLeave:
		o.Pulls, o.Moment = drawTogether(t, 1, 3), drawMoment(t)
	case DoKillIn:
		o.Pulls, o.Moment = drawTogether(t, 1, 2), drawMoment(t)
		for i := range o.Pulls { // mostly there is something to do
			p := &o.Pulls[i]
			p.Caller = oneOf(t, "killed caller", Alice, Bob, Alice, Bob, p.Caller)
			p.Policy = oneOf(t, "killed policy", IfDigestChanged, Always, IfDigestChanged, Always, p.Policy)
		}
	case DoMeanwhile:
		o.Pulls, o.Moment = drawTogether(t, 1, 3), drawMoment(t)
		change := drawOp(t, oneOf(t, "change", DoPush, DoDeny, DoTrouble, DoDelete, DoRestore))
		o.Change = &change
	case DoPush:
		o.Name = upTo(t, "name", 0, names-1)
		o.Content = upTo(t, "content", 1, contents-1)
	case DoDelete, DoRemove:
		o.Name = upTo(t, "name", 0, names-1)
	case DoTag, DoImport:
		o.Name, o.From = upTo(t, "name", 0, names-1), upTo(t, "from", 0, names-1)
	case DoMirror:
		o.Mirror = rapid.Bool().Draw(t, "mirror")
	case DoDeny, DoAllow:
		o.Name = oneOf(t, "repository", 0, 2)
		o.Caller = oneOf(t, "caller", Alice, Bob, Nobody, Nobody)
	case DoTrouble:
		o.Trouble = oneOf(t, "trouble", Refuses, Status503, Status429, Forbids, Portal, Lies, NoBlobs, CutBlobs, Swallows)
	case DoRule:
		o.Rule.Policy = oneOf(t, "policy", Always, IfDigestChanged, IfNotPresent, Never)
		o.Rule.Lenient = rapid.Bool().Draw(t, "lenient")
		o.Rule.From = drawFrom(t)
		o.Rule.Authority = rapid.Bool().Draw(t, "authority")
		o.Rule.Access = oneOf(t, "access", Verified, Verified, Strict, AnyCaller)
		o.Rule.ByNamespace = rapid.Bool().Draw(t, "by namespace")
		o.Rule.Fresh = drawFresh(t)
	}
	return o
}

func drawFresh(t *rapid.T) Freshness {
	return Freshness{
		Starts: rapid.Bool().Draw(t, "starts"), Deadline: rapid.Bool().Draw(t, "deadline"),
		Pin: rapid.Bool().Draw(t, "pin"), Manifest: rapid.Bool().Draw(t, "manifest"),
		Budget: upTo(t, "budget", 0, 3) == 0,
	}
}

func drawFrom(t *rapid.T) From {
	return oneOf(t, "from", FromMirrors, FromOriginThenMirrors, FromOriginThenMirrors, FromOrigin)
}

// drawMoment draws a point in a pull, which has up to 7 requests.
func drawMoment(t *rapid.T) Moment {
	ms := oneOf(t, "delay", 0, 0, 0, 1, 2, 3, 5, 8, 12, 20, 40)
	return Moment{Requests: upTo(t, "requests", 0, 7), Delay: time.Duration(ms) * time.Millisecond}
}

// drawTogether draws pulls at the same time, most of them of one name.
func drawTogether(t *rapid.T, least, most int) []Pull {
	all := make([]Pull, upTo(t, "pulls", least, most))
	for i := range all {
		all[i] = drawPull(t)
		if upTo(t, "of the first's name", 0, 3) > 0 {
			all[i].Name = all[0].Name
		}
		if upTo(t, "of the first's policy", 0, 3) == 0 {
			all[i].Policy, all[i].MaxAge, all[i].FailOn = all[0].Policy, all[0].MaxAge, all[0].FailOn
		}
	}
	return all
}

func drawPull(t *rapid.T) Pull {
	p := Pull{
		Caller:    oneOf(t, "caller", Alice, Alice, Alice, Bob, Bob, Nobody, Wrong),
		Namespace: oneOf(t, "namespace", TeamA, TeamA, TeamA, TeamB, NoNamespace),
		Name:      oneOf(t, "name", 0, 0, 0, 1, 2),
		Policy:    oneOf(t, "policy", ByRule, Always, IfDigestChanged, IfDigestChanged, IfDigestChanged, IfNotPresent, Never),
	}
	switch upTo(t, "more", 0, 9) {
	case 7:
		p.Digest = upTo(t, "digest", 1, contents-1)
	case 8:
		p.MaxAge = true
	case 9:
		p.FailOn = oneOf(t, "class", Unreachable, Unavailable, RateLimited, NotFound, Unauthorized, Forbidden, Invalid)
	}
	return p
}
