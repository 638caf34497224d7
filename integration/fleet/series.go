// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"sync"
	"time"
)

// Column is something that is counted by the second.
type Column uint8

// What is counted: requests by their kind, what became of them, and pods.
const (
	Challenges  Column = iota // requests that were answered with 401
	Tokens                    // requests for tokens
	Checks                    // HEAD of a tag or digest
	Manifests                 // GET of one
	Blobs                     // configs and layers
	Probes                    // of a host in trouble
	Refused                   // 429
	Unavailable               // 5xx
	Unanswered                // refused, timed out, given up
	Connections               // that were made
	Started                   // pods that got their image
	Delayed                   // those of them that waited longer than a start may take
	Stale                     // those of them with a cached image after a failure
	Outdated                  // those of them whose image was not the tag's any more
	Failures                  // tries of pods that got no image
	columns
)

// Columns names them, in their order.
var Columns = [columns]string{
	"challenges", "tokens", "checks", "manifests", "blobs", "probes", "refused", "unavailable",
	"unanswered", "connections", "started", "delayed", "stale", "outdated", "failures",
}

// requests are the columns of requests.
const requests = Probes + 1

// Series counts by the second, from its start. Safe for concurrent use.
type Series struct {
	start time.Time

	mu      sync.Mutex
	seconds [][columns]int32
}

// NewSeries returns an empty one that starts at that time.
func NewSeries(start time.Time) *Series { return &Series{start: start} }

// Add counts one more of each, now. Before the start it counts nothing.
func (s *Series) Add(each ...Column) {
	since := time.Since(s.start)
	if since < 0 {
		return
	}
	second := int(since / time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, [columns]int32{})
	}
	for _, c := range each {
		s.seconds[second][c]++
	}
}

// add adds the counts of another.
func (s *Series) add(other *Series) {
	for len(s.seconds) < len(other.seconds) {
		s.seconds = append(s.seconds, [columns]int32{})
	}
	for i, counts := range other.seconds {
		for c, n := range counts {
			s.seconds[i][c] += n
		}
	}
}

// sum adds the counts of some columns up, from one second to before another.
func (s *Series) sum(from, to time.Duration, which ...Column) (n int) {
	for i := int(from / time.Second); i < min(int(to/time.Second), len(s.seconds)); i++ {
		for _, c := range which {
			n += int(s.seconds[i][c])
		}
	}
	return n
}

// rate is the mean of a second.
func (s *Series) rate(from, to time.Duration, which ...Column) float64 {
	return float64(s.sum(from, to, which...)) / (to - from).Seconds()
}

// Peaks are means over so much time.
const (
	peakOver   = 10 * time.Second
	probesOver = time.Minute
)

// peak is the greatest mean over a part of a span.
func (s *Series) peak(from, to, over time.Duration, which ...Column) (highest float64) {
	for at := from; at+over <= to; at += time.Second {
		highest = max(highest, s.rate(at, at+over, which...))
	}
	return highest
}

// allRequests are the columns of requests.
func allRequests() []Column {
	list := make([]Column, requests)
	for i := range list {
		list[i] = Column(i)
	}
	return list
}
