// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

const (
	// burstPart is the part of a minute's checks that may be made at once.
	burstPart = 2
	// sharedPart is the part of these that namespaces leave to one another.
	sharedPart = 2
	// maxServed bounds the checks whose namespaces a bucket remembers.
	maxServed = 256
)

// bucket is the budget of one registry: a token bucket that no namespace empties for the
// others. Once a second one has wanted a check, those who have made most of the last checks
// leave half of the bucket to those who have made fewer, for good: these may start once a
// week. So tenants whose containers start all the time do not keep their neighbours on old
// images, who may start several at a time. The lock of budgets guards it.
type bucket struct {
	limiter *rate.Limiter
	named   bool     // the operator has named the registry
	served  []string // the namespaces of the last checks, the oldest first
	first   *string  // the namespace that wanted the first one, granted or not; nil = none has
	shared  bool     // another one has wanted one since
}

// newBucket returns one that was empty when the daemon started, and has filled since.
func newBucket(perMinute int, started time.Time) *bucket {
	limiter := rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/burstPart))
	limiter.AllowN(started, limiter.Burst())
	return &bucket{limiter: limiter}
}

// take takes a check for a namespace, whose turn may come as late as that. It returns false,
// and takes nothing, where that is not enough, or where what is left is for others.
func (b *bucket) take(namespace string, now time.Time, longest time.Duration) (turn *rate.Reservation, ok bool) {
	b.noteAsker(namespace)
	if left := b.limiter.Burst() / sharedPart; b.shared && b.limiter.TokensAt(now) < float64(left+1) && !b.isBehind(namespace) {
		return nil, false
	}
	turn = b.limiter.ReserveN(now, 1)
	if turn.DelayFrom(now) > longest {
		turn.CancelAt(now)
		return nil, false
	}
	if len(b.served) >= min(b.limiter.Burst(), maxServed) {
		b.served = slices.Delete(b.served, 0, 1)
	}
	b.served = append(b.served, namespace)
	return turn, true
}

// isBehind reports whether a namespace has made none of the last checks, or will still have
// made fewer than another one with the next.
func (b *bucket) isBehind(namespace string) bool {
	made, most := map[string]int{}, 0
	for _, who := range b.served {
		made[who]++
		if who != namespace {
			most = max(most, made[who])
		}
	}
	return made[namespace] == 0 || made[namespace]+1 < most
}

// noteAsker notes that a namespace wants a check.
func (b *bucket) noteAsker(namespace string) {
	if b.first == nil {
		b.first = &namespace
	}
	b.shared = b.shared || *b.first != namespace
}

// missing is how long the bucket takes to be full again. One that is full knows no more than
// whose the last checks were.
func (b *bucket) missing(now time.Time) time.Duration {
	return time.Duration((float64(b.limiter.Burst()) - b.limiter.TokensAt(now)) / float64(b.limiter.Limit()) * float64(time.Second))
}

// goesBefore reports whether less is lost with the bucket than with another one.
func (b *bucket) goesBefore(other *bucket, now time.Time) bool {
	if b.named != other.named {
		return other.named
	}
	return b.missing(now) < other.missing(now)
}
