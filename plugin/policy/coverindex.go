// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
)

// maxCompared bounds how often globs of rules are compared with each other, which
// takes less than a second.
const maxCompared = 2_000_000

// coverIndex finds the rules that may cover a glob among thousands, by a component
// of their globs that both must have.
type coverIndex struct {
	rules    []Rule
	byKey    map[coverKey][]int // numbers of rules, in their order
	compared int
}

// coverKey is what a glob must have in common with each glob that it covers. The
// zero value is in common with all.
type coverKey struct {
	component string // of the repository; literal
	position  int    // of the component, counted from 1; 0 = there is none
	tag       string // literal; "" = any
	namespace string // literal; "" = any
}

// add puts a rule behind those that are there, under the rarest key of each glob.
func (c *coverIndex) add(n int) {
	r := &c.rules[n]
	namespaces := []string{""}
	if len(r.Namespaces) > 0 && !slices.ContainsFunc(r.Namespaces, func(g NamespaceGlob) bool { return !isLiteral(g.text) }) {
		namespaces = nil
		for _, g := range r.Namespaces {
			namespaces = append(namespaces, g.text)
		}
	}
	for i := range r.Images {
		g := &r.Images[i]
		key := coverKey{}
		if g.tag != "" && isLiteral(g.tag) {
			key.tag = g.tag
		}
		for _, key.namespace = range namespaces {
			rarest := key
			for position, component := range g.fixed() {
				k := coverKey{component, position, key.tag, key.namespace}
				if rarest.position == 0 || len(c.byKey[k]) < len(c.byKey[rarest]) {
					rarest = k
				}
			}
			c.byKey[rarest] = append(c.byKey[rarest], n)
		}
	}
}

// fixed returns the literal components of a repository by position, up to where
// positions are no longer those of every match. The host is one of them where it has
// one name only.
func (g *ImageGlob) fixed() map[int]string {
	fixed := map[int]string{}
	for i, component := range strings.Split(g.repository, "/") {
		if component == "**" || strings.Contains(component, "{") {
			break
		}
		if isLiteral(component) && (i > 0 || !g.pattern) {
			fixed[i+1] = component
		}
	}
	return fixed
}

// cover returns the first rule of those that were added which covers a glob in the
// namespaces; nil for none.
func (c *coverIndex) cover(glob ImageGlob, namespaces []NamespaceGlob) *Rule {
	first := len(c.rules)
	for _, key := range keysFor(&glob, namespaces) {
		for _, n := range c.byKey[key] {
			if n >= first {
				break
			}
			if c.compared++; c.compared > maxCompared {
				return nil
			}
			if c.rules[n].Covers(glob, namespaces) {
				first = n
			}
		}
	}
	if first == len(c.rules) {
		return nil
	}
	return &c.rules[first]
}

// keysFor lists the keys of the globs that may cover one.
func keysFor(g *ImageGlob, namespaces []NamespaceGlob) (keys []coverKey) {
	tags, inNamespaces, fixed := []string{""}, []string{""}, g.fixed()
	if g.tag != "" {
		tags = append(tags, g.tag)
	}
	if len(namespaces) > 0 {
		inNamespaces = append(inNamespaces, namespaces[0].text)
	}
	for _, tag := range tags {
		for _, namespace := range inNamespaces {
			keys = append(keys, coverKey{tag: tag, namespace: namespace})
			for position, component := range fixed {
				keys = append(keys, coverKey{component, position, tag, namespace})
			}
		}
	}
	return keys
}
