// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

// The contract as a model: what may come of a pull. It is about three names in
// two repositories, four contents, four callers and two namespaces; 0 is no content.

// World is the state of a node. It is comparable.
type World struct {
	// Node is what each name has.
	Node [names]Image
	// Has tells of the records of repository@digest: whether there is one, and who
	// has proved access by it.
	Has [repos][contents]Set
	// Blamed are the failure classes for which the registry may be in trouble.
	Blamed Blame
}

// Image is what a name has on the node.
type Image struct {
	Content int
	Stale   Class // the label stale-reason
	Proofs  Set   // who has proved access by this name
	By      Giver // of the last check by the registry, where there was one, or else by the mirror
	Read    Reader
	// Open says that the record tells of no check: what its labels say is for
	// another name or digest.
	Open bool
	// Under is what the labels of an open image say of the one that had the name
	// before. It counts again where that comes back.
	Under Labels
}

// Labels are what the record of a name says of a content.
type Labels struct {
	Content int
	Stale   Class
	Proofs  Set
	By      Giver
	Read    Reader
	Open    bool
}

// Pull returns what may come of a pull while the registry is as now says, and, once the
// tag is answered, as later says.
func (w World) Pull(now, later Registry, p Pull) []Branch {
	if b, asks := w.unasked(now, p); !asks {
		return []Branch{b}
	}
	return w.ask(now, later, p)
}

// unasked is what comes of a pull that asks no registry; asks says that it asks one.
func (w World) unasked(now Registry, p Pull) (b Branch, asks bool) {
	policy, present := now.policy(p), w.content(p)
	grant := w.grant(now, p)
	reusable := grant == given || grant == open && policy == Never
	switch {
	case reusable && (p.Digest != 0 || policy == IfNotPresent || policy == Never):
		return w.present(p), false
	case policy == Never: // nobody is told whether there is an image
		return Branch{Saw{Outcome: Failed}, w, w}, false
	case reusable && p.MaxAge && w.checked(now, p):
		return Branch{Saw{Outcome: Fresh}, w.complete(p, present), w.complete(p, present)}, false
	}
	return Branch{}, true
}

// checked reports whether there was a check that counts for a name. Every one here
// was made within the hour.
func (w World) checked(now Registry, p Pull) bool {
	img := w.Node[p.Name]
	origin, mirror := img.By == Origin, img.By == Mirror
	if now.Rule.Fresh.Manifest {
		origin, mirror = img.Read == ReadOrigin, img.Read == ReadMirror
	}
	return !img.Open && (origin || mirror && now.Rule.From == FromMirrors)
}

// ask is a pull that asks the registry.
func (w World) ask(now, later Registry, p Pull) (all []Branch) {
	all = w.overBudget(now, p)
	for class := range w.Blamed.of(p).each() { // a host in trouble is not asked, where a fallback will do
		by := now.inNeed(p, class)
		if by.class == None {
			all = append(all, w.answered(now, later, p, by)...)
		} else if b := w.failed(now, p, by, false); b.Outcome != Failed || by.class != class {
			all = append(all, b)
		}
	}
	for _, by := range now.check(p) {
		w := w
		w.Blamed.blame(p, by.need)
		if by.class != None {
			all = append(all, w.failed(now, p, by, false))
			continue
		}
		if by.content < 0 && w.unproved(now, p) { // the manifest is read, and its bytes say another digest
			all = append(all, w.failed(now, p, said{class: Invalid}, false))
		}
		all = append(all, w.answered(now, later, p, by)...)
	}
	return all
}

// answered is a pull after a host has said which digest it has.
func (w World) answered(now, later Registry, p Pull, by said) (all []Branch) {
	before, present := w, w.content(p)
	w.Blamed.answered(p, by.giver)
	switch {
	case by.content == present && by.need != None && p.Digest == 0 && now.policy(p) != IfNotPresent:
		return []Branch{w.mirrored(before, now, p, present)}
	case by.content == present:
		return []Branch{w.unchanged(before, now, p, present, by, true)}
	case present == 0 || now.policy(p) != IfNotPresent:
		return w.changed(now, later, p, by, false)
	}
	// Only access is in doubt, and the digest can prove it.
	confirms := []said{now.confirm(p, present)}
	if later != now { // which may be so since the tag was answered
		confirms = append(confirms, later.confirm(p, present))
	}
	for class := range w.Blamed.of(p).each() {
		confirms = append(confirms, now.inNeedOf(p, present, class))
	}
	for _, cached := range confirms {
		switch {
		case cached.class == None:
			all = append(all, w.unchanged(before, now, p, present, cached, false))
		case cached.class.cannotSay() && w.grant(now, p) == open:
			all = append(all, w.present(p))
		default:
			w := w
			w.refused(p, cached.class)
			all = append(all, w.changed(now, later, p, by, !cached.class.cannotSay())...)
		}
	}
	return all
}

// changed downloads what a host has said. The caller might not have the cached
// content where that was forbidden.
func (w World) changed(now, later Registry, p Pull, by said, forbidden bool) []Branch {
	present := w.content(p)
	if w.waits(now, p, by) {
		w = w.complete(p, present)
	}
	if class := later.download(p, by.content, w.possessed(now, p, by.content)); class != None {
		return []Branch{w.failed(now, p, said{class: class, pulling: by.need == None}, forbidden)}
	}
	return w.pulled(now, p, by)
}

// mirrored reuses what the mirror confirmed in the place of the origin: no check, and
// stale.
func (w World) mirrored(before World, now Registry, p Pull, content int) Branch {
	after := w.unchanged(before, now, p, content, said{giver: Mirror, need: Unreachable}, true).After
	after.Node[p.Name].Stale = MirrorFallback
	return Branch{Saw{UsedCached, MirrorFallback}, after, before.complete(p, content)}
}

// present reuses an image without a registry's word.
func (w World) present(p Pull) Branch {
	w = w.complete(p, w.content(p))
	return Branch{Saw{Outcome: Present}, w, w}
}

// complete makes the record of repository@digest of an image that is reused.
func (w World) complete(p Pull, content int) World {
	w.Has[p.repo()][content].add(known)
	return w
}

// unchanged reuses what the registry confirmed. The result of the check is
// written behind, and a crash before that is as if nobody had asked.
func (w World) unchanged(before World, now Registry, p Pull, content int, by said, byTag bool) Branch {
	read := now.Rule.Fresh.Manifest || w.unproved(now, p) // for who has proved nothing
	after, proofs := w, w.proves(by.giver, now, p, content, read)
	after.Has[p.repo()][content].add(known | marked)
	after.Has[p.repo()][content].give(proofs)
	if byTag && p.Digest == 0 {
		img := &after.Node[p.Name]
		if img.Open {
			img.By = Unchecked
		}
		if by.need == None {
			img.Stale, img.By, img.Read = None, min(by.giver, img.By), now.Rule.reads(by.giver, img.Read)
		}
		img.Open, img.Under = false, Labels{}
		img.Proofs.give(proofs)
	}
	return Branch{Saw{Outcome: Unchanged}, after, before.complete(p, content)}
}

// pulled is a download, with the manifest but where that is here for who has proved something:
// then it may come all the same, since the node may have asked for it before it knew.
func (w World) pulled(now Registry, p Pull, by said) (all []Branch) {
	all = w.stored(now, p, by, true)
	if w.possessed(now, p, by.content) && !now.Rule.Fresh.Manifest {
		all = append(all, w.stored(now, p, by, false)...)
	}
	return all
}

// possessed reports whether the node has a content under the repository, for somebody who has
// proved access to it: nothing is downloaded then. To others the registry gives manifest and config.
func (w World) possessed(now Registry, p Pull, content int) bool {
	p.Digest, p.unproved = max(content, 0), false // found out when it is pulled
	return p.Digest > 0 && !w.unproved(now, p)
}

// stored is on disk before the request ends. Proofs by a name that comes back to its
// content may be kept, or be those of repository@digest alone.
func (w World) stored(now Registry, p Pull, by said, read bool) (all []Branch) {
	proofs, saw := w.proves(by.giver, now, p, by.content, read), Saw{Outcome: Pulled}
	img := Image{Content: by.content, Proofs: proofs, By: by.giver, Read: now.Rule.reads(by.giver, Unread)}
	if by.need != None {
		saw.Class, img.Stale, img.By, img.Read = MirrorFallback, MirrorFallback, Unchecked, Unread
	}
	w.Has[p.repo()][by.content].add(known | marked)
	w.Has[p.repo()][by.content].give(proofs)
	if p.Digest != 0 {
		return []Branch{{saw, w, w}}
	}
	under := w.Node[p.Name].Under
	w.Node[p.Name] = img
	all = append(all, Branch{saw, w, w})
	if under.Content == by.content {
		under.Proofs.give(proofs)
		w.Node[p.Name].Proofs = under.Proofs
		switch { // what was checked before is kept
		case under.Open:
		case by.need != None:
			w.Node[p.Name].By, w.Node[p.Name].Read = under.By, under.Read
		default:
			w.Node[p.Name].By, w.Node[p.Name].Read = min(by.giver, under.By), now.Rule.reads(by.giver, under.Read)
		}
		all = append(all, Branch{saw, w, w})
	}
	return all
}

// failed takes proofs away after a refusal, which is on disk before the request
// ends, and falls back where the policy and a proof allow it, or where no
// registry can say whose the image is. The image that is there stays in any case.
// Only the registry itself refuses here, since the mirror is for all.
func (w World) failed(now Registry, p Pull, by said, forbidden bool) Branch {
	class := by.class
	w.refused(p, class)
	w.Blamed.blame(p, class)
	grant := w.grantAfter(now, p, by)
	opened := grant == open && class.cannotSay() && !forbidden
	switch {
	case opened && (p.Digest != 0 || now.policy(p) == IfNotPresent):
		b := w.present(p)
		b.Class = class
		return b
	case grant != given && !opened || !now.usesCached(p, class):
		return Branch{Saw{Failed, class}, w, w}
	}
	w = w.complete(p, w.content(p))
	after := w
	if p.Digest == 0 {
		after.Node[p.Name].Stale, after.Node[p.Name].Under = class, Labels{}
	}
	return Branch{Saw{UsedCached, class}, after, w}
}

// refused takes away the proofs that the registry's failure ends.
func (w *World) refused(p Pull, class Class) {
	if class != Unauthorized && class != Forbidden {
		return
	}
	for content := range w.Has[p.repo()] {
		w.Has[p.repo()][content].refuse(p)
	}
	for name := range w.Node {
		if repoOf[name] == p.repo() {
			w.Node[name].Proofs.refuse(p)
			w.Node[name].Under.Proofs.refuse(p)
		}
	}
}

// content is what the node has for a reference.
func (w World) content(p Pull) int {
	if p.Digest == 0 {
		return w.Node[p.Name].Content
	}
	if w.Has[p.repo()][p.Digest].has(known) {
		return p.Digest
	}
	return 0
}
