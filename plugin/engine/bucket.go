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
	// rivalFor is how long a namespace counts as one that may want a check again.
	rivalFor = time.Hour
)

// bucket is the budget of one registry: a token bucket that no namespace empties for the
// others. As long as others want checks, too, those who have made most of the last checks
// leave half of the bucket to those who have made fewer. So tenants whose containers start all
// the time do not keep their neighbours on old images, who may start several at a time. The
// lock of budgets guards it.
type bucket struct {
	limiter *rate.Limiter
	named   bool     // the operator has named the registry
	served  []string // the namespaces of the last checks, the oldest first
	askers  [2]asker // the namespaces that wanted the last ones, granted or not, the latest first
}

// asker is a namespace that wanted a check.
type asker struct {
	namespace string
	at        time.Time
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
	rivals := b.rivals(namespace, now)
	if left := b.limiter.Burst() / sharedPart; rivals && !b.isBehind(namespace) && b.limiter.TokensAt(now) < float64(left+1) {
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

// rivals notes that a namespace wants a check, and reports whether another one has wanted
// one lately.
func (b *bucket) rivals(namespace string, now time.Time) bool {
	if b.askers[0].namespace != namespace {
		b.askers[1] = b.askers[0]
	}
	b.askers[0] = asker{namespace, now}
	return !b.askers[1].at.IsZero() && now.Sub(b.askers[1].at) < rivalFor
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
