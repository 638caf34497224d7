// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// tries are the pulls of one image by equal requests, one after the other. A
// request that waits for its turn shares the failure of a try that began while
// it waited. So a download that comes to nothing holds up a line of requests for
// the rest of its own time and for one more, not once for each of them. They
// share a success by finding the image when their turn comes.
type tries struct {
	begun  atomic.Int64
	mu     sync.Mutex
	failed map[failedKey]failedTry // the last ones
}

type failedKey struct {
	podNamespace store.Fingerprint
	needs        needs
}

type failedTry struct {
	number int64
	cause  *resolver.Error
}

// needs are what hosts have to deliver in a try: the documents of the image, its content, or
// nothing at all.
type needs struct{ documents, content bool }

// within reports whether others need all of that, too, and meet it first: who has to be delivered the
// documents may be refused those, where others have failed at the layers.
func (n needs) within(others needs) bool {
	return n.documents == others.documents && (!n.content || others.content)
}

// needs are those of a request at its turn. An image that is found may still have to be delivered
// its manifest; to who has proved it nothing need be delivered that is on the node.
func (t *task) needs(action Do, local Local, p possession) needs {
	switch {
	case action == Reuse:
		return needs{documents: t.asksForFound(local)}
	case action == Pull && !p.ownDocuments():
		return needs{documents: t.readsManifests(), content: true}
	}
	return needs{documents: true, content: true}
}

// try is the part of one request in the tries of an image.
type try struct {
	*tries
	number int64     // of the last try that had begun when this request came, then of its own
	key    failedKey // of its own
	took   bool      // shared has returned a failure
	leave  func()
}

// newTry is called before a request waits for its turn. The caller leaves.
func (e *Engine) newTry(t task, target digest.Digest) *try {
	if t.Caller == "" {
		return &try{tries: new(tries), leave: func() {}} // it shares nothing
	}
	// What hosts do not deliver they do not deliver to any namespace.
	key := t.pullKey(target)
	key.podNamespace = ""
	all, _, release := e.tries.Acquire(key, func() *tries { return new(tries) })
	return &try{tries: all, key: failedKey{podNamespace: t.PodNamespace}, number: all.begun.Load(), leave: func() { release() }}
}

// shared returns why a try failed that began after this request came, and needed no more; nil
// for none. A refusal is shared with no other namespace: it takes proofs away. It is called at
// the request's turn.
func (y *try) shared(n needs) *resolver.Error {
	y.mu.Lock()
	defer y.mu.Unlock()
	last := failedTry{number: y.number}
	for key, other := range y.failed {
		mine := key.podNamespace == y.key.podNamespace || len(other.cause.Refusals()) == 0
		if mine && key.needs.within(n) && other.number > last.number {
			last = other
		}
	}
	y.took = last.cause != nil
	return last.cause
}

// begin and fail are called at the request's turn.
func (y *try) begin(n needs) { y.number, y.key.needs = y.begun.Add(1), n }

func (y *try) fail(cause *resolver.Error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.failed == nil {
		y.failed = map[failedKey]failedTry{}
	}
	y.failed[y.key] = failedTry{y.number, cause}
}
