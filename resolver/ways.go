// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// manifestOrDigest asks a host in two ways, each of which is whole: by GET, and where the end
// of that says little about the digest, or is slow to come, by HEAD as well. The weightier end
// counts. Nothing is under way any more when it returns.
func (s *session) manifestOrDigest(ctx context.Context, h *host) outcome {
	first, second := &firstWay{authority: h.authority, slow: make(chan time.Time, 1)}, &secondWay{}
	byGet, byHead := s.newWay(h, first.before), s.newWay(h, second.before)
	byGet.examiner.manifests, byHead.examiner.unexplained = true, true

	get, head := bothWays(ctx, byGet, byHead, first, second)
	winner, end := byGet, get
	if head != nil && head.outweighs(get) {
		winner, end = byHead, *head
	}
	winner.finish(end.err == nil)
	return end
}

// bothWays goes one way, and the other one where it is of use: nil = it was not.
func bothWays(ctx context.Context, byGet, byHead *way, first *firstWay, second *secondWay) (get outcome, head *outcome) {
	ctxGet, cancelGet := context.WithCancelCause(ctx)
	defer cancelGet(nil)
	first.giveUp = func() { cancelGet(errSlowManifest) }
	getEnds := byGet.start(ctxGet)
	select {
	case get = <-getEnds:
		if get.err != nil && first.doubtful {
			end := byHead.resolve(ctx)
			head = &end
		}
		return get, head
	case second.since = <-first.slow:
	}
	ctxHead, cancelHead := context.WithCancel(ctx)
	defer cancelHead()
	headEnds := byHead.start(ctxHead)
	select {
	case get = <-getEnds:
		if get.err == nil || !first.doubtful {
			cancelHead()
			<-headEnds
			return get, nil
		}
		end := <-headEnds
		return get, &end
	case end := <-headEnds:
		if end.err == nil {
			first.giveUp()
		}
		return <-getEnds, &end
	}
}

// start goes the way on a goroutine of its own.
func (w *way) start(ctx context.Context) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- w.resolve(ctx) }()
	return done
}

// outweighs reports whether the end of a way by HEAD counts, and not that by GET. A manifest
// always counts, and a digest more than any failure to have the manifest: registries refuse
// some callers the manifest alone. Of two failures it is the stricter one. Those by GET have
// the reason of a refusal, those by HEAD are of a request that was tried again.
func (o outcome) outweighs(get outcome) bool {
	switch {
	case get.err == nil:
		return false
	case o.err == nil:
		return true
	}
	own, other := o.weight(), get.weight()
	return own > other || own == other && own < refusal
}

// Weights of failures.
const (
	silence    = iota // there was no time for an answer
	noRefusal         // any other
	refusal           // somebody refused the caller
	ownRefusal        // the host did
)

func (o outcome) weight() int {
	switch refuses := fault.AnswerClass(o.err).Refuses(); {
	case o.late:
		return silence
	case refuses && isOwn(o.err):
		return ownRefusal
	case refuses:
		return refusal
	}
	return noRefusal
}

// secondWay tells of the requests of a way that the host has been asked for longer in
// another one.
type secondWay struct {
	next  http.RoundTripper
	since time.Time // when that began, where it has not ended; zero = it has
}

// before puts it before another RoundTripper.
func (s *secondWay) before(next http.RoundTripper) http.RoundTripper {
	s.next = next
	return s
}

// RoundTrip implements http.RoundTripper.
func (s *secondWay) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	p.Since = s.since
	return s.next.RoundTrip(req.WithContext(purpose.With(req.Context(), p)))
}
