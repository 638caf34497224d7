// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

// The contract as a model: what may come of a pull. It is about three names in
// two repositories, four contents and four callers; 0 is no content.

// World is the state of a node. It is comparable.
type World struct {
	// Node is what each name has.
	Node [names]Image
	// Has tells for a repository at a digest who has proved access, and, as the
	// bit known, that there is a record of repository@digest.
	Has [repos][contents]Set
	// Blamed is why a fallback may need no request.
	Blamed Blame
}

// Blame are failure classes that may be known without a request.
type Blame struct {
	// Host are those for which the host may be in trouble.
	Host Classes
	// Own are those that a caller has met with at a repository.
	Own [repos][callers]Classes
}

// Image is what a name has on the node.
type Image struct {
	Content int
	Stale   Class // the label stale-reason
}

// Branch is one thing that may come of a pull.
type Branch struct {
	Saw
	// After is the state that follows; Lost is what is left of it if the daemon
	// is killed before the results of checks are written.
	After, Lost World
}

// Pull returns what may come of a pull while the registry is as now says, and,
// from the first byte of a download on, as later says.
func (w World) Pull(now, later Registry, p Pull) []Branch {
	policy, present := now.policy(p), w.content(p)
	proved := present != 0 && w.proved(p, present)
	switch {
	case proved && (p.Digest != 0 || policy == IfNotPresent || policy == Never):
		return []Branch{{Saw{Outcome: Present}, w, w}}
	case policy == Never: // nobody is told whether there is an image
		return []Branch{{Saw{Outcome: Failed}, w, w}}
	case proved && p.MaxAge: // every image here was checked within the hour
		return []Branch{{Saw{Outcome: Fresh}, w, w}}
	}
	return w.ask(now, later, p)
}

// ask is a pull that asks the registry.
func (w World) ask(now, later Registry, p Pull) (all []Branch) {
	present := w.content(p)
	for class := range w.blamed(p).each() { // nobody is asked, where a fallback will do
		if present != 0 && w.proved(p, present) && now.usesCached(p, class) {
			all = append(all, w.failed(now, p, class))
		}
	}
	for _, class := range now.check(p) {
		if class != None {
			all = append(all, w.failed(now, p, class))
			continue
		}
		answered := w
		answered.Blamed.Host, answered.Blamed.Own[p.repo()][p.Caller] = 0, 0
		tag := now.content(p)
		switch {
		case tag == present:
			all = append(all, answered.unchanged(w, p, present, true))
		case present != 0 && now.policy(p) == IfNotPresent: // only access was in doubt, and the digest proves it
			all = append(all, answered.unchanged(w, p, present, false))
		default:
			if class := later.download(p, tag, w.Has[p.repo()][max(tag, 0)].has(known)); class != None {
				all = append(all, answered.failed(now, p, class))
			} else {
				all = append(all, answered.pulled(p, tag))
			}
		}
	}
	return all
}

// unchanged reuses what the registry confirmed. The result of the check is
// written behind, and a crash before that is as if nobody had asked.
func (w World) unchanged(before World, p Pull, content int, byTag bool) Branch {
	after := w
	after.Has[p.repo()][content].add(p.Caller.bit() | known)
	if byTag && p.Digest == 0 {
		after.Node[p.Name].Stale = None
	}
	return Branch{Saw{Outcome: Unchanged}, after, before}
}

// pulled is on disk before the request ends.
func (w World) pulled(p Pull, content int) Branch {
	w.Has[p.repo()][content].add(p.Caller.bit() | known)
	if p.Digest == 0 {
		w.Node[p.Name] = Image{Content: content}
	}
	return Branch{Saw{Outcome: Pulled}, w, w}
}

// failed takes proofs away after a refusal, which is on disk before the request
// ends, and falls back where the policy and a proof allow it. The image that is
// there stays in any case.
func (w World) failed(now Registry, p Pull, class Class) Branch {
	if class == Unauthorized || class == Forbidden {
		for content := range w.Has[p.repo()] {
			w.Has[p.repo()][content].remove(p.Caller.bit())
		}
	}
	w.blame(p, class)
	content := w.content(p)
	if content == 0 || !w.proved(p, content) || !now.usesCached(p, class) {
		return Branch{Saw{Failed, class}, w, w}
	}
	after := w
	after.Node[p.Name].Stale = class
	return Branch{Saw{UsedCached, class}, after, w}
}

// blame notes that the host may be in trouble, and what may be remembered of the
// repository and the caller.
func (w *World) blame(p Pull, class Class) {
	if class == Unreachable || class == Unavailable || class == RateLimited {
		w.Blamed.Host.add(class)
	}
	if class == Unreachable || class == RateLimited {
		w.Blamed.Own[p.repo()][p.Caller].add(class)
	}
}

// blamed are the classes that may be known to a pull.
func (w World) blamed(p Pull) Classes {
	return w.Blamed.Host | w.Blamed.Own[p.repo()][p.Caller]
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

// proved reports whether the caller, or everybody, has proved access.
func (w World) proved(p Pull, content int) bool {
	return w.Has[p.repo()][content].has(p.Caller.bit()) || w.Has[p.repo()][content].has(Nobody.bit())
}
