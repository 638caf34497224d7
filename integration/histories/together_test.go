// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import "slices"

// explain finds an order of pulls at the same time in which the model allows
// all that they brought. Equal requests may share one check and one pull, and a
// request that began before another's proof was there may ask all the same.
func (h *history) explain(now Registry, pulls []Pull, answers []answer) error {
	var fit []World
	for _, w := range h.worlds {
		o := orders{history: h, now: now, begun: w, pulls: pulls, answers: answers}
		o.from(w, make([]bool, len(pulls)))
		for _, found := range o.found {
			if !slices.Contains(fit, found) {
				fit = append(fit, found)
			}
		}
	}
	if len(fit) == 0 {
		return violated("pulls at the same time end as no order of them allows", "%v\nbrought %v\nthe node had %v\nthe registry was %+v",
			pulls, answers, h.worlds, now)
	}
	h.worlds, h.lost, h.settled = fit, nil, false
	return h.settle()
}

// orders searches all orders.
type orders struct {
	*history
	now     Registry
	begun   World
	pulls   []Pull
	answers []answer
	found   []World
}

// from continues at w, where some pulls are done already.
func (o *orders) from(w World, done []bool) {
	if !slices.Contains(done, false) {
		o.found = append(o.found, w)
		return
	}
	for i := range o.pulls {
		if done[i] {
			continue
		}
		for _, together := range o.sharing(i, done) {
			for _, b := range o.branches(w, o.pulls[i]) {
				if b.Saw == o.answers[i].Saw && o.isImage(o.answers[i], b.After.content(o.pulls[i])) {
					o.from(b.After, together)
				}
			}
		}
	}
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
