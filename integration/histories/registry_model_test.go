// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

// Registry is what the registry, and the rule on the node, say.
type Registry struct {
	Tag     [names]int            // 0: deleted, or never pushed
	Pushed  [repos][contents]bool // manifests outlive their tags
	Allowed [repos]Set
	Basic   bool // Basic authentication: 403 is how it refuses whom it knows
	Trouble Trouble
	Mirror  bool // before the registry: always up, with all of its content, and open to all
	Rule    Rule
}

// policy is that of the hint, or of the rule.
func (r Registry) policy(p Pull) Policy {
	if p.Policy != ByRule {
		return p.Policy
	}
	return r.Rule.Policy
}

// usesCached is the directive for a failure class.
func (r Registry) usesCached(p Pull, class Class) bool {
	return r.policy(p) == IfDigestChanged && class != p.FailOn && (!class.security() || r.Rule.Lenient)
}

// content is what a host has for a reference; -1, a digest that no content has,
// where the registry lies.
func (r Registry) content(p Pull, by Giver) int {
	switch {
	case p.Digest != 0:
		return p.Digest
	case r.Trouble == Lies && by == Origin:
		return -1
	}
	return r.Tag[p.Name]
}

// check returns what a check may end with.
func (r Registry) check(p Pull) []said {
	if r.Mirror && r.Rule.From == FromMirrors {
		switch {
		case !r.missing(p):
			return []said{{content: r.content(p, Mirror), giver: Mirror}}
		case r.Rule.Authority:
			return []said{{class: NotFound}}
		}
	}
	all := r.origin(p)
	for i := range all {
		if all[i].class != None {
			all[i] = r.inNeed(p, all[i].class)
		}
	}
	return all
}

// inNeed is what a check ends with after the origin has failed so.
func (r Registry) inNeed(p Pull, class Class) said {
	switch {
	case !r.Mirror, r.Rule.From != FromOriginThenMirrors, class != Unreachable && class != Unavailable:
	case !r.missing(p):
		return said{content: r.content(p, Mirror), giver: Mirror, need: class}
	case r.Rule.Authority:
		return said{class: NotFound, need: class}
	}
	return said{class: class}
}

// origin is what a check of the origin alone may end with.
func (r Registry) origin(p Pull) []said {
	refused := r.refuses(p)
	switch class := r.Trouble.check(); {
	case class == None && refused != None:
		return []said{{class: refused}}
	case class == None && r.missing(p):
		return []said{{class: NotFound}}
	case p.Caller == Wrong && !r.Basic && r.Trouble.manifestsOnly():
		return []said{{class: class}, {class: Unauthorized}} // whether a token was asked for first
	case class != None:
		return []said{{class: class}}
	case r.Rule.Fresh.Manifest && r.content(p, Origin) < 0: // its bytes say another one
		return []said{{class: Invalid}}
	}
	return []said{{content: r.content(p, Origin), giver: Origin}}
}

// confirm is the question whether the caller may have a content, by its digest.
func (r Registry) confirm(p Pull, content int) said {
	p.Digest = content
	return r.check(p)[0]
}

// inNeedOf is inNeed for the question whether the caller may have a content.
func (r Registry) inNeedOf(p Pull, content int, class Class) said {
	p.Digest = content
	return r.inNeed(p, class)
}

// missing reports whether the registry has no such tag or manifest.
func (r Registry) missing(p Pull) bool {
	if p.Digest != 0 {
		return !r.Pushed[p.repo()][p.Digest]
	}
	return r.Tag[p.Name] == 0
}

// refuses returns how the registry refuses the caller.
func (r Registry) refuses(p Pull) Class {
	switch {
	case p.Caller != Wrong && r.Allowed[p.repo()].has(Origin.of(p.Caller.holder())):
		return None
	case r.Basic && p.Caller != Wrong && p.Caller != Nobody:
		return Forbidden
	}
	return Unauthorized
}

// download returns what the download of a content ends with; here says that the
// node has it under this repository already.
func (r Registry) download(p Pull, content int, here bool) Class {
	switch {
	case content < 0 && r.Mirror && r.Rule.Authority:
		return NotFound
	case content < 0 && r.Trouble == Lies:
		return Invalid
	case here, r.Mirror && content > 0 && r.Pushed[p.repo()][content]:
		return None
	case content < 0 && (r.Trouble == Up || r.Trouble == NoBlobs || r.Trouble == CutBlobs):
		return NotFound
	case r.Trouble != Up && r.Trouble != Lies:
		return r.Trouble.class()
	}
	return r.refuses(p)
}
