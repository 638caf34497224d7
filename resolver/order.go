// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// Order says which hosts may resolve a name, and when.
type Order uint8

const (
	// ListedOrder is that of hosts.toml, with all hosts.
	ListedOrder Order = iota
	// OriginThenMirrors begins with the registry that the name says. The mirrors
	// follow in their order, only where that is unreachable or unavailable.
	OriginThenMirrors
	// OriginOnly is the registry that the name says, and nobody else.
	OriginOnly
)

// candidates returns the hosts that may resolve the reference, in the order in which
// they are asked. If none may, it returns why not.
func (s *session) candidates() (hosts []*host, refusals []Attempt) {
	needed, names := docker.HostCapabilityPull, "pull"
	if s.spec.Digest() == "" {
		needed, names = needed|docker.HostCapabilityResolve, "pull and resolve"
	}
	var mirrors []*host
	for _, h := range s.hosts {
		mirror := s.query.Order != ListedOrder && !h.Origin
		switch {
		case mirror && s.query.Order == OriginOnly:
		case mirror && h.Capabilities.Has(needed):
			mirrors = append(mirrors, h)
		case mirror:
		case h.Capabilities.Has(needed):
			hosts = append(hosts, h)
		default:
			err := fmt.Errorf("not asked: its configuration does not give it the capabilities to %s", names)
			refusals = append(refusals, h.attempt(failure.Invalid, err, 0))
		}
	}
	if len(hosts) > 0 {
		return append(hosts, mirrors...), nil
	}
	return nil, refusals
}

// mayAnswer reports whether a host may be asked after those attempts. Mirrors behind the
// origin wait for a failure of the origin that is none of its answers.
func (s *session) mayAnswer(h *host, attempts []Attempt) bool {
	return !s.isFallback(h) || !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Origin && !a.Class.Silent() })
}

// answering returns the hosts whose answers count as much as that of the host with that name: all
// that may resolve the reference, but no mirrors behind the origin where it is that. They are in the order
// of the pull.
func (s *session) answering(name string) []*host {
	hosts, _ := s.candidates()
	if slices.ContainsFunc(hosts, func(h *host) bool { return h.Origin && h.By() == name }) {
		hosts = slices.DeleteFunc(hosts, s.isFallback)
	}
	return slices.DeleteFunc(slices.Clone(s.hosts), func(h *host) bool { return !slices.Contains(hosts, h) })
}

// isFallback reports whether a host may only answer in the place of the origin.
func (s *session) isFallback(h *host) bool { return s.query.Order == OriginThenMirrors && !h.Origin }

// deliversFirst reports whether a pull would ask the host first for the manifest, after
// those attempts: all hosts before it in hosts.toml have failed.
func (s *session) deliversFirst(h *host, attempts []Attempt) bool {
	for _, other := range s.hosts {
		if other == h {
			return true
		}
		if !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.by == other }) {
			return false
		}
	}
	return false
}

// identifies reports whether the configuration shows a host who the node is.
func (s *session) identifies(h *host) bool { return h.Identified || len(s.headers) > 0 }

// inPlace is the class of the origin's failure where the host has answered in its place;
// None for all other answers.
func (s *session) inPlace(h *host, attempts []Attempt) failure.Class {
	class := failure.None
	for _, a := range attempts {
		if a.Origin && s.isFallback(h) {
			class = a.Class
		}
	}
	return class
}

// round is one of those in which a check asks its hosts. Each is over those that were passed over
// in the one before.
type round uint8

const (
	wellHosts      round = iota // passes over those in trouble
	recoveredHosts              // where there is a fallback: passes over those that no probe finds well
	allHosts                    // where there is none: passes over nobody
)

// turn is that of a host in a check.
type turn struct {
	hosts     []*host // it, and those whose turn comes after it in the same round
	attempts  []Attempt
	round     round
	postponed bool                 // others before it in the round were passed over
	troubled  map[*host]health.Key // of those that were passed over in a round before: for whose trouble
}

// share is what a host gets of a check.
type share struct {
	others   int          // hosts that have a share as large as it
	reserve  bool         // others are in trouble: see maxReserve
	next     []health.Key // of the hosts whose turn comes after it in the same round
	last     bool         // no other host is sure to be asked that can answer as well
	fallback failure.Set  // classes of its failure after which there is something else to use
}

// maxReserve bounds what is kept for all hosts in trouble together, as does a quarter of the time that
// is left: to wait for their probes, and as much again to ask those that are well by then. It is
// little, since most of them are not.
const maxReserve = 2 * health.MaxWait

// timeLeft is how much the host has of the time that is left, never 0; 0 = it has no bound.
func (sh share) timeLeft(ctx context.Context) time.Duration {
	return sh.of(purpose.Purpose{}.TimeLeft(ctx))
}

// of is timeLeft of that.
func (sh share) of(left time.Duration) time.Duration {
	if sh.reserve {
		left -= min(maxReserve, left/4)
	}
	if left > 0 {
		left = max(left/time.Duration(1+sh.others), 1)
	}
	return left
}

// share is that of the host whose turn it is, as things are now: the others are asked after it. Those in
// trouble have none, but the reserve, until nobody else is left. A mirror behind the origin gets its share
// of the time, but cannot answer as well: it is what is left to use where the origin is unreachable or
// unavailable.
func (s *session) share(ctx context.Context, t turn) share {
	first, next := t.hosts[0], t.hosts[1:]
	sh := share{reserve: t.postponed && t.round == wellHosts, last: true, fallback: s.fallback(t)}
	left := purpose.Purpose{}.TimeLeft(ctx) / time.Duration(len(t.hosts))
	for _, h := range next {
		sh.next = append(sh.next, h.Key())
		switch {
		case t.isInTrouble(h, left):
			sh.reserve = true
			continue
		case t.leadsToTrouble(h, left): // it may have a token: its time is kept, but nobody is sure to ask it
		case !s.isFallback(h) || !first.Origin:
			sh.last = false
		case t.round == wellHosts:
			sh.fallback = sh.fallback.With(failure.Unreachable, true).With(failure.Unavailable, true)
		}
		sh.others++
	}
	return sh
}

// fallback are the classes of a failure of the host whose turn it is after which the caller has something else
// to use, by that class and by the one that decides, as far as others have failed: they may decide what becomes of the check, whatever that host says.
func (s *session) fallback(t turn) (classes failure.Set) {
	attempts := append(beside(t.attempts, t.hosts[0]), t.hosts[0].attempt(failure.None, nil, 0))
	for _, class := range failure.All() {
		attempts[len(attempts)-1].Class = class
		classes = classes.With(class, s.query.Fallback.Has(class) && s.query.Fallback.Has(decidingClass(attempts)))
	}
	return classes
}

// beside are the attempts but that a host was passed over before; a refusal is one by another way to it.
func beside(attempts []Attempt, h *host) []Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool { return a.by == h && !a.Refused })
}

// isInTrouble reports whether the round would pass over a host that has so much time left for its own trouble, as things are now.
func (t turn) isInTrouble(h *host, left time.Duration) bool {
	return t.round != allHosts && h.health.Blocked(h.Key(), left)
}

// leadsToTrouble is isInTrouble for that for which the host was passed over before, such as that of its token server.
func (t turn) leadsToTrouble(h *host, left time.Duration) bool {
	troubled, known := t.troubled[h]
	return t.round != allHosts && known && h.health.Blocked(troubled, left)
}
