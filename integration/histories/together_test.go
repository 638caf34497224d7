// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"maps"
	"slices"
)

// explain finds an order of pulls at the same time in which the model allows
// all that they brought. Equal requests may share one check and one pull, and a
// request that began before another's proof was there may ask all the same. If
// the daemon was killed, what was not yet written may be lost.
func (h *history) explain(now Registry, pulls []Pull, answers []answer, killed bool) error {
	var fit []World
	for _, w := range h.worlds {
		o := orders{history: h, now: now, begun: w, pulls: pulls, answers: answers, killed: killed, found: map[World]bool{}}
		o.from(w, make([]bool, len(pulls)))
		fit = slices.AppendSeq(fit, maps.Keys(o.found))
	}
	if len(fit) == 0 && len(pulls) == 1 {
		return h.unexplained(pulls[0], answers[0], h.worlds[0].Pull(now, now, pulls[0]), now)
	}
	if len(fit) == 0 {
		return violated("pulls at the same time end as no order of them allows", "%v\nbrought %v\nthe node had %v\nthe registry was %+v",
			pulls, answers, h.worlds, now)
	}
	h.worlds, h.lost, h.settled = fit, nil, false
	if killed {
		return nil
	}
	return h.settle()
}

// orders searches all orders.
type orders struct {
	*history
	now     Registry
	begun   World
	pulls   []Pull
	answers []answer
	killed  bool
	found   map[World]bool
}

// from continues at w, where some pulls are done already.
func (o *orders) from(w World, done []bool) {
	if !slices.Contains(done, false) {
		o.found[w] = true
		return
	}
	for i := range o.pulls {
		if done[i] {
			continue
		}
		for _, together := range o.sharing(i, done) {
			for _, next := range o.after(w, i) {
				o.from(next, together)
			}
		}
	}
}

// after returns what may follow a pull.
func (o *orders) after(w World, i int) (all []World) {
	p, a := o.pulls[i], o.answers[i]
	branches := o.branches(w, p)
	if !a.decided || a.cut {
		return cutShort(w, branches)
	}
	for _, b := range branches {
		if b.Saw == a.Saw && o.isImage(a, b.After.content(p)) {
			all = append(all, b.After)
			if o.killed {
				all = append(all, b.Lost)
			}
		}
	}
	return all
}

// sharing returns what may be done once i is: i alone, or with all of the same
// request and answer.
func (o *orders) sharing(i int, done []bool) [][]bool {
	alone, all := slices.Clone(done), slices.Clone(done)
	for j := range o.pulls {
		if !done[j] && o.equal(o.pulls[j], o.pulls[i]) && o.answers[j].Saw == o.answers[i].Saw {
			all[j] = true
		}
	}
	alone[i] = true
	if slices.Equal(alone, all) {
		return [][]bool{alone}
	}
	return [][]bool{alone, all}
}

// equal reports whether two requests have the same directives.
func (o *orders) equal(a, b Pull) bool {
	for _, p := range []*Pull{&a, &b} {
		if p.FailOn.security() && !o.now.Rule.Lenient {
			p.FailOn = None // as by default
		}
		p.Policy = o.now.policy(*p)
		if p.Digest != 0 {
			p.Name = p.repo() // the same for all tags of the repository
		}
	}
	return a == b
}

func (o *orders) branches(w World, p Pull) []Branch {
	all := w.Pull(o.now, o.now, p)
	if began := o.begun.Pull(o.now, o.now, p); began[0].Outcome != Present && began[0].Outcome != Fresh && o.now.policy(p) != Never {
		all = append(all, w.ask(o.now, o.now, p)...)
	}
	return all
}
