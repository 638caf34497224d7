// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"maps"
	"slices"
)

// orders explains pulls at the same time by an order of them.
type orders struct {
	h *history
	// states of the registry, one after the other.
	states []Registry
	// inOrder says that a pull which met a later state comes after those that
	// met an earlier one: where the registry begins to refuse, what it allowed
	// before is no proof afterwards. A tag that moves has no such order.
	inOrder bool
	// killed says that what was not yet written may be lost.
	killed  bool
	pulls   []Pull
	answers []answer

	begun World
	found map[World]bool
}

// explain finds the orders in which the model allows all that the pulls
// brought. Equal requests of a namespace may share one check and one pull, and one that
// began before another's proof was there may ask all the same.
func (o orders) explain(ctx context.Context) error {
	var fit []World
	for _, w := range o.h.worlds {
		o.begun, o.found = w, map[World]bool{}
		o.from(w, make([]bool, len(o.pulls)), 0)
		for found := range maps.Keys(o.found) {
			if fit = append(fit, found); o.killed {
				fit = append(fit, found.unwritten(w), found.unmarked(w))
			}
		}
	}
	if len(fit) == 0 {
		return violated("pulls end as the contract does not allow", "%v\nbrought %v\nthe node had %v\nthe registry was %+v",
			o.pulls, o.answers, o.h.worlds, o.states)
	}
	o.h.worlds, o.h.lost, o.h.settled = fit, nil, false
	if o.killed {
		return nil
	}
	return o.h.settle(ctx)
}

// from continues at w, where some pulls are done already.
func (o *orders) from(w World, done []bool, state int) {
	if !slices.Contains(done, false) {
		o.found[w] = true
		return
	}
	for i := range o.pulls {
		if done[i] {
			continue
		}
		for _, together := range o.sharing(i, done) {
			for now := state; now < len(o.states); now++ {
				next := 0
				if o.inOrder {
					next = now
				}
				for _, w := range o.after(w, done, i, now) {
					o.from(w, together, next)
				}
			}
		}
	}
}

// after returns what may follow a pull that was checked at that state of the
// registry, after those that are done.
func (o *orders) after(w World, done []bool, i, now int) (all []World) {
	p, a := o.pulls[i], o.answers[i]
	var branches []Branch
	for _, later := range o.states[now:] {
		branches = append(branches, o.branches(w, p, o.states[now], later)...)
		if len(o.states) > 1 && later.Trouble.manifestsOnly() { // the manifest may have come before
			later.Trouble = Up
			branches = append(branches, o.branches(w, p, o.states[now], later)...)
		}
	}
	if len(o.states) > 1 && a.Class != None { // its tries may have met each of them
		for i := range branches {
			for _, state := range o.states {
				branches[i].After.Blamed.blame(p, state.Trouble.class())
			}
		}
	}
	if !a.decided || a.cut {
		return o.waited(cutShort(w, branches), p, o.states[now])
	}
	for _, b := range branches {
		if b.Saw == a.Saw && o.h.isImage(a, b.After.content(p)) {
			all = append(all, b.After, o.moved(w, b.After, p), o.denied(b.After, done, p), o.unstale(w, b.After, done, p))
			if o.killed {
				all = append(all, b.Lost)
			}
		}
	}
	return o.waited(all, p, o.states[now])
}

// waited adds what is left of a pull that made the image complete which there was when it began, and then found that
// another pull has brought the new one: of one with a deadline, or of one that would reuse an open image, and begins anew.
func (o *orders) waited(all []World, p Pull, now Registry) []World {
	content := o.begun.content(p)
	waits := o.begun.waits(now, p, said{need: Unreachable}) // whoever has answered
	opens := p.Digest == 0 && o.begun.grant(now, p) == open
	for _, w := range slices.Clone(all) {
		if waits || opens && w.content(p) != content {
			all = append(all, w.complete(p, content))
		}
	}
	return all
}

// moved is what is left of a reuse if another pull moves the name before the record
// of repository@digest is made: then there is none.
func (o *orders) moved(before, after World, p Pull) World {
	content := before.content(p)
	if has := before.Has[p.repo()][content]; len(o.pulls) > 1 && p.Digest == 0 && !has.has(known) {
		after.Has[p.repo()][content] = has
	}
	return after
}

// unstale is what is left of a fallback to an image that another request has brought or confirmed since the check failed:
// no mark, or one that the other's own mark takes away.
func (o *orders) unstale(before, after World, done []bool, p Pull) World {
	for j, q := range o.pulls {
		checked := o.answers[j].Outcome == Pulled || o.answers[j].Outcome == Unchanged
		if done[j] && checked && p.Digest == 0 && q.Digest == 0 && q.Name == p.Name && before.content(p) == after.content(p) {
			after.Node[p.Name].Stale = before.Node[p.Name].Stale
		}
	}
	return after
}

// denied is what is left of what a registry allowed if it was asked before it refused
// others: that is no proof any more for the holders whom the refusals concern.
func (o *orders) denied(after World, done []bool, p Pull) World {
	for j, q := range o.pulls {
		if done[j] && q.repo() == p.repo() {
			after.refused(q, o.answers[j].Class)
		}
	}
	return after
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

// equal reports whether two requests are those of one namespace, with the same directives.
func (o *orders) equal(a, b Pull) bool {
	now := o.states[0]
	for _, p := range []*Pull{&a, &b} {
		if p.FailOn.security() && !now.Rule.Lenient {
			p.FailOn = None // as by default
		}
		p.Policy = now.policy(*p)
		if p.Digest != 0 {
			p.Name = p.repo() // the same for all tags of the repository
		}
	}
	return a == b
}

func (o *orders) branches(w World, p Pull, now, later Registry) []Branch {
	all := w.Pull(now, later, p)
	if _, asks := o.begun.unasked(now, p); asks {
		all = append(all, w.ask(now, later, p)...)
		all = append(all, o.early(w, p, now, later)...)
		all = append(all, o.unproved(w, p, now, later)...)
		all = append(all, o.refusedSince(w, p, now)...)
	}
	return all
}

// unproved is a pull that began without a proof which another has given its caller since: that
// counts in a fallback, and the manifest is read all the same.
func (o *orders) unproved(w World, p Pull, now, later Registry) []Branch {
	if !o.begun.unproved(now, p) || w.unproved(now, p) {
		return nil
	}
	p.unproved = true
	return w.ask(now, later, p)
}

// refusedSince is a pull that has asked no host in trouble, since a fallback would do, and whose proof a refusal of another has
// ended by then: it fails by the trouble.
func (o *orders) refusedSince(w World, p Pull, now Registry) (all []Branch) {
	if o.begun.grant(now, p) != given || w.grant(now, p) == given {
		return nil
	}
	for class := range o.begun.Blamed.of(p).each() {
		if now.inNeed(p, class).class == class {
			all = append(all, w.failed(now, p, said{class: class}, false))
		}
	}
	return all
}

// early is a pull that fails without looking again for an image which there was not when
// it began: another pull may have brought one since, and a refusal ends its proofs. Where
// there was another one, that is gone: what the name has by then may be no fallback.
func (o *orders) early(w World, p Pull, now, later Registry) (all []Branch) {
	if w.content(p) == 0 || w.content(p) == o.begun.content(p) {
		return nil
	}
	if o.begun.content(p) != 0 {
		for _, b := range o.begun.ask(now, later, p) {
			if b.Class != None && b.Class != MirrorFallback {
				all = append(all, w.failed(now, p, said{class: b.Class}, false), w.failed(now, p, said{class: b.Class, pulling: true}, false))
			}
		}
		return all
	}
	for _, b := range o.begun.ask(now, later, p) {
		if b.Outcome == Failed {
			after := w
			after.refused(p, b.Class)
			after.Blamed.blame(p, b.Class)
			all = append(all, Branch{b.Saw, after, after})
		}
	}
	return all
}
