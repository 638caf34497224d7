// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

// Namespace is the Kubernetes namespace of a pod.
type Namespace int

// The namespaces. NoNamespace is none that the request says.
const (
	NoNamespace Namespace = iota
	TeamA
	TeamB
	namespaces
)

func (n Namespace) String() string { return [namespaces]string{"", "team-a", "team-b"}[n] }

// Holder is whose proof it is: a caller's, or a namespace's.
type Holder int

// holders counts NoNamespace too, which holds nothing.
const holders = callers + int(namespaces)

func (c Caller) holder() Holder    { return Holder(c) }
func (n Namespace) holder() Holder { return Holder(callers + int(n)) }

func (h Holder) String() string {
	if h < callers {
		return Caller(h).String()
	}
	return Namespace(h - callers).String()
}

// Giver is the host that gives a proof.
type Giver int

// The hosts of a name. Unchecked gives nothing: it is that of the last check where
// there was none.
const (
	Origin Giver = iota
	Mirror
	Unchecked
)

// of is the holder's proof by a giver.
func (g Giver) of(h Holder) Set {
	if h == NoNamespace.holder() {
		return 0
	}
	return 1 << (holders*int(g) + int(h))
}

// ofBoth are the holder's proofs by whomever.
func ofBoth(h Holder) Set { return Origin.of(h) | Mirror.of(h) }

// Set is a set of proofs, and what else is known of a repository at a digest.
type Set uint16

const (
	known  Set = 1 << 15 // there is a record of repository@digest
	marked Set = 1 << 14 // the image is for holders of a proof
)

func (s Set) has(bits Set) bool    { return s&bits == bits }
func (s Set) hasAny(bits Set) bool { return s&bits != 0 }
func (s *Set) add(bits Set)        { *s |= bits }
func (s *Set) remove(bits Set)     { *s &^= bits }

// give adds proofs. The registry's leaves a holder none of the mirror's beside it.
func (s *Set) give(proofs Set) {
	for h := range Holder(holders) {
		if proofs.hasAny(Origin.of(h)) {
			s.remove(Mirror.of(h))
		}
	}
	s.add(proofs)
}

// refuse takes away what the registry's refusal of a pod ends: the proofs of its
// caller, and those of its namespace.
func (s *Set) refuse(p Pull) {
	s.remove(ofBoth(p.Namespace.holder()) | Origin.of(p.Caller.holder()))
	if p.Caller != Nobody { // a mirror that is open to all stays so
		s.remove(Mirror.of(p.Caller.holder()))
	}
}

func (s Set) String() string {
	text := ""
	for h := range Holder(holders) {
		if s.hasAny(Origin.of(h)) {
			text += " " + h.String()
		}
		if s.hasAny(Mirror.of(h)) {
			text += " " + h.String() + " by the mirror"
		}
	}
	switch {
	case s.has(known | marked):
		text += " (recorded)"
	case s.has(known):
		text += " (recorded, of nobody)"
	}
	return "[" + text + " ]"
}

// grant says whether the caller may reuse the image of a reference, as long as the registry
// has not answered.
func (w World) grant(now Registry, p Pull) grant {
	return w.grantBy(now, p, now.Rule.From != FromOrigin)
}

// unproved reports whether an image is asked for as one that is not there, by its manifest: what
// the mirror may say only in the place of the origin proves nothing to that, nor does what comes
// while it is asked.
func (w World) unproved(now Registry, p Pull) bool {
	return p.unproved || w.grantBy(now, p, now.Rule.From == FromMirrors) != given
}

// grantAfter is the grant after a check. Once the origin has answered itself, proofs by the
// mirror count only where that may always answer.
func (w World) grantAfter(now Registry, p Pull, by said) grant {
	silent := by.need != None || (by.class == Unreachable || by.class == Unavailable) && !by.pulling
	return w.grantBy(now, p, now.Rule.From == FromMirrors || now.Rule.From == FromOriginThenMirrors && silent)
}

// grantBy is the grant by proofs of the origin, and of the mirror or not.
func (w World) grantBy(now Registry, p Pull, mirrors bool) grant {
	content := w.content(p)
	if content == 0 {
		return none
	}
	has := w.Has[p.repo()][content]
	if p.Digest == 0 {
		has |= w.Node[p.Name].Proofs
	}
	holder := now.Rule.holder(p)
	counts := Origin.of(holder) | Origin.of(Nobody.holder())
	if mirrors {
		counts |= Mirror.of(holder) | Mirror.of(Nobody.holder())
	}
	restricted := has.has(marked) || p.Digest == 0 && !w.Node[p.Name].Open
	switch {
	case has.hasAny(counts), now.Rule.Access == AnyCaller:
		return given
	case !restricted && now.Rule.Access == Verified:
		return open
	}
	return none
}
