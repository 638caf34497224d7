// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

// Branch is one thing that may come of a pull.
type Branch struct {
	Saw
	// After is the state that follows; Lost is what is left of it if the daemon
	// is killed before the results of checks are written.
	After, Lost World
}

// grant is whether a caller may reuse an image.
type grant int

const (
	none grant = iota
	open       // where no registry can say whose it is
	given
)

// said is what a host says of a reference, or why no host says anything.
type said struct {
	class   Class
	content int
	giver   Giver
	need    Class // of the origin, where the mirror has answered in its place
	pulling bool  // a pull has failed, after an answer that was none in the place of the origin
}

// proves returns the proofs that a yes about a content gives, which has read the manifest or not: the
// answer to HEAD says nothing of that. The mirror asks nobody who is there, so that its yes is one to
// all, if the manifest came with it. So is a yes to nobody. Without the manifest the same host has to have
// given a proof before, to the caller or to everybody; or to everybody, for everybody's.
func (w World) proves(g Giver, now Registry, p Pull, content int, read bool) (proofs Set) {
	has, holder := w.Has[p.repo()][content], now.Rule.holder(p)
	if img := w.Node[p.Name]; p.Digest == 0 && img.Content == content {
		has |= img.Proofs
	}
	switch {
	case p.Caller != Nobody && (read || has.has(g.of(holder)) || has.has(g.of(Nobody.holder()))):
		proofs.add(g.of(holder))
	case p.Caller == Nobody && (read || has.has(g.of(Nobody.holder()))):
		proofs.add(g.of(Nobody.holder()))
	}
	if g == Mirror && read {
		proofs.add(g.of(Nobody.holder()))
	}
	return proofs
}

// Blame are failure classes that may be known without a request: as long as they
// are, a fallback needs none.
type Blame struct {
	Host Classes                 // for which the registry may be in trouble
	Own  [repos][callers]Classes // that a caller has met with at a repository
}

// of are the classes for a pull.
func (b Blame) of(p Pull) Classes { return b.Host | b.Own[p.repo()][p.Caller] }

// blame notes that the registry may be in trouble.
func (b *Blame) blame(p Pull, class Class) {
	if class == Unreachable || class == Unavailable || class == RateLimited {
		b.Host.add(class)
	}
	if class == Unreachable || class == RateLimited {
		b.Own[p.repo()][p.Caller].add(class)
	}
}

// answered notes that a host has answered.
func (b *Blame) answered(p Pull, by Giver) {
	if by == Origin {
		b.Host, b.Own[p.repo()][p.Caller] = 0, 0
	}
}
