// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// errOutdated ends a request whose pull would give its tag back to an older answer. It begins anew.
var errOutdated = errors.New("the tag has been given to another image, by a later answer of the registry, while this one was pulled")

// newest lets requests that are under way know which answers about the same name have been acted
// upon since they asked: a pull takes time, and must not put its older answer over those. The zero
// value is ready.
type newest struct {
	logs shared.Map[string, *answerLog] // kept as long as somebody asks, or acts on an answer
}

// answerLog holds what each host has said last of a name, of what was acted upon. Questions and
// answers are numbered as they come: clocks go back, and labels know seconds.
type answerLog struct {
	mu    sync.Mutex
	count uint64
	acted map[string]actedUpon
}

type actedUpon struct {
	number uint64 // of the answer
	digest digest.Digest
	origin bool
}

// question is that of one request. It must be ended.
type question struct {
	log             *answerLog
	insists         bool // its answer is never outdated
	asked, answered uint64
	end             func()
}

func (n *newest) question(name string, insists bool) *question {
	l, _, release := n.logs.Acquire(name, func() *answerLog { return &answerLog{acted: map[string]actedUpon{}} })
	return &question{log: l, insists: insists, end: func() { release() }}
}

func (l *answerLog) next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.count
}

func (q *question) ask() { q.asked = q.log.next() }

func (q *question) answer() { q.answered = q.log.next() }

// renew takes in a later answer with the same digest: what was acted upon between the two makes nothing outdated that waits
// for this one. Others hear of it once it is acted upon. It has to count as much: what a mirror says, in the place of the registry or
// not, is no word of the registry's.
func (a *answer) renew(later answer) {
	same := later.verified.By == a.verified.By && (later.originFailed == failure.None) == (a.originFailed == failure.None)
	if a.question == nil || later.question == nil || !same && (!later.verified.Origin || a.originFailed == failure.None) {
		return
	}
	q := a.question
	q.log.mu.Lock()
	defer q.log.mu.Unlock()
	q.asked, q.answered = max(q.asked, later.question.asked), max(q.answered, later.question.answered)
}

// actUpon notes that the name stands for what the answer says, unless a later one is noted. One
// about something else than the name of the request has no question.
func (a *answer) actUpon() {
	if a.question == nil {
		return
	}
	a.question.log.mu.Lock()
	defer a.question.log.mu.Unlock()
	a.note()
}

// actUponUnlessOutdated is actUpon for an answer that is not outdated. It reports whether that is so.
func (a *answer) actUponUnlessOutdated() bool {
	if a.question == nil {
		return true
	}
	a.question.log.mu.Lock()
	defer a.question.log.mu.Unlock()
	if a.hasLater() {
		return false
	}
	a.note()
	return true
}

// note is actUpon for who holds the lock.
func (a *answer) note() {
	if l := a.question.log; a.question.answered > l.acted[a.verified.By].number {
		l.acted[a.verified.By] = actedUpon{a.question.answered, a.verified.Digest, a.verified.Origin}
	}
}

// isOutdated reports whether the last answer that came since the question, and was acted upon, says
// another digest. What other hosts say is another matter, which their order decides, but for the
// registry where a mirror has answered in its place.
func (a *answer) isOutdated() bool {
	if a.question == nil {
		return false
	}
	a.question.log.mu.Lock()
	defer a.question.log.mu.Unlock()
	return a.hasLater()
}

// hasLater is isOutdated for who holds the lock.
func (a *answer) hasLater() bool {
	if a.question.insists {
		return false
	}
	last := actedUpon{a.question.asked, a.verified.Digest, false}
	for host, other := range a.question.log.acted {
		counts := host == a.verified.By || other.origin && (a.verified.Origin || a.originFailed != failure.None)
		if counts && other.number > last.number {
			last = other
		}
	}
	return last.digest != a.verified.Digest
}
