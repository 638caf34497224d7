// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package purpose says what a request is made for. A request's context carries
// that through docker's resolver, which cannot pass anything else, to the
// RoundTrippers and the token machinery. They only read it.
package purpose

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// Kind is the kind of work that a request is a part of.
type Kind int

const (
	Other Kind = iota // not ours: it is neither hurried nor tried again
	Check             // asking one host for a digest
	Fetch             // getting content of one digest in a pull
)

// Dial is what a request waits for a new connection by. A later one has more time.
type Dial int

const (
	FirstDial  Dial = iota // another host may answer instead
	SecondDial             // none can, but others wait behind it: the connection did not come in the time of the first
	LongDial               // as long as it takes
)

// Purpose is what a request to one host is made for, or a request for a token on
// its behalf. It is a value: a caller that knows more puts another into the
// context.
type Purpose struct {
	Kind Kind

	// Last says that no other host can answer instead.
	Last bool

	// Fallback are the classes of failure after which the caller of a check has
	// something else to use.
	Fallback failure.Set

	// Answered is called, once or more, when the host begins to answer a check with success or a
	// redirect; nil = nobody is told.
	Answered func()

	// Next are the keys of the hosts that a fetch, or the same round of a check, asks after this
	// one.
	Next []health.Key

	// Waits bounds how long a check waits for probes; nil = each by itself.
	Waits health.Waits

	// Document says that a fetch is of a manifest or config: small, and made to
	// be answered at once.
	Document bool

	// Size of the content of a fetch, in bytes, as its descriptor says.
	Size int64

	// KeepHost says that the host is already serving the content of the fetch,
	// which is not moved then.
	KeepHost bool

	// Force says that nothing else is left but hosts in trouble: a fetch asks the host even then, and a
	// check does not pass over it for those that it asks after it.
	Force bool

	// Patient says that nothing is left but hosts that the fetch has left since they were
	// silent: one may be silent as long as the fetch lasts.
	Patient bool

	// Dialed says that in this fetch the connection to the host did not come in the time that one has which
	// is to be faster than the next host: it may have been a lost packet.
	Dialed bool

	// Patience is how long a host may be silent in a fetch of content that another host can
	// give, before its first byte or in the middle. 0 = as long as the fetch lasts, but for
	// documents.
	Patience time.Duration

	// Asking is since when a fetch has the host asked for the begin of its content, by challenges,
	// tokens and redirects; zero = from now on.
	Asking time.Time

	// Until is when the host's share of a check is over of which a fetch is a part; zero = it is a
	// part of none.
	Until time.Time

	// Once says that a request is not sent again, since who needs the answer asks anew: that
	// of a fetch that is made before anybody needs the content.
	Once bool

	// Health is what the session knows of hosts. nil = nothing.
	Health *health.View

	// Admitted is the host that the caller has decided to ask, in trouble or not; the
	// zero value = it has decided nothing.
	Admitted health.Key

	// Since is when the host was first asked for the same, where that was given up to ask
	// in another way; zero = now.
	Since time.Time

	// Deadline bounds a request that several callers wait for, in place of the
	// deadline of the context; nil = that one counts.
	Deadline *Deadline

	// Asked is told whom such a request asks; nil = nobody is told.
	Asked *Asked
}

// HasAlternative reports whether another host may answer when this one does not, be it one in trouble, which
// may be well again by then. A fetch that has given up on a connection to it has none but ready ones.
func (p Purpose) HasAlternative() bool {
	return p.Kind != Other && !p.Last && (!p.Dialed || !p.Patient && p.CanMove())
}

// HasReadyAlternative is HasAlternative for hosts that can answer as things are now.
func (p Purpose) HasReadyAlternative() bool {
	return p.HasAlternative() && (p.Kind != Fetch && !p.Force || !p.Patient && p.CanMove())
}

// Dial is by what a request waits for a new connection.
func (p Purpose) Dial() Dial {
	switch {
	case p.HasAlternative():
		return FirstDial
	case p.Dialed:
		return SecondDial
	}
	return LongDial
}

// CanFailFast reports whether there is something else to use than the host,
// which is in trouble of that class.
func (p Purpose) CanFailFast(class failure.Class) bool {
	switch p.Kind {
	case Check:
		return !p.Last && !p.Force || p.Fallback.Has(class)
	case Fetch:
		return !p.KeepHost && !p.Force && p.CanMove()
	}
	return false
}

// Awaits reports whether a check waits for the probe of a host of which that is known, nil for no
// trouble: only the caller's fallback is left.
func (p Purpose) Awaits(open *health.OpenError) bool {
	if p.Kind != Check || !p.Last && !p.Force {
		return false
	}
	return open == nil && !p.Fallback.Empty() || open != nil && p.Fallback.Has(open.Class)
}

// ChecksDocument reports whether a request is a part of a check for what is read to its end at once.
func (p Purpose) ChecksDocument() bool { return p.Kind == Check || p.Document && !p.Until.IsZero() }

// CanMove reports whether a host that a fetch asks later, and that is in no trouble, can give
// the content as well.
func (p Purpose) CanMove() bool {
	return slices.ContainsFunc(p.Next, func(key health.Key) bool { return !p.Health.Blocked(key, 0) })
}

// ProbeNext has those hosts probed that CanMove leaves out by an old verdict: they may be well by now.
func (p Purpose) ProbeNext() {
	for _, key := range p.Next {
		_ = p.Health.Trouble(key, 0)
	}
}

// TimeLeft is the time that a request of the context has left, never 0; 0 = it has no
// bound.
func (p Purpose) TimeLeft(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if p.Deadline != nil {
		deadline, bounded = p.Deadline.At()
	}
	if !bounded {
		return 0
	}
	return cmp.Or(time.Until(deadline), -1)
}

type contextKey struct{}

// With returns a context whose requests are made for p.
func With(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, contextKey{}, &p)
}

// Of returns what the requests of a context are made for, the zero value if
// nobody has said so.
func Of(ctx context.Context) Purpose {
	if p, ok := ctx.Value(contextKey{}).(*Purpose); ok {
		return *p
	}
	return Purpose{}
}
