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
// share a success by finding the image when their turn comes. Who finds it may still have to
// ask for its manifest, and shares the failure of that alone.
type tries struct {
	begun  atomic.Int64
	mu     sync.Mutex
	failed map[store.Fingerprint]failedTry // the last one of each namespace
}

type failedTry struct {
	number int64
	found  bool // nothing but a manifest was asked for
	cause  *resolver.Error
}

// tryKey is what requests must have in common to share a try: what a check takes, but for
// the namespace of the pod. What hosts do not deliver they do not deliver to any.
type tryKey struct {
	checkKey
	digest digest.Digest
}

// try is the part of one request in the tries of an image.
type try struct {
	*tries
	podNamespace store.Fingerprint
	number       int64 // of the last try that had begun when this request came, then of its own
	found        bool  // the image of its own try was on the node
	leave        func()
}

// newTry is called before a request waits for its turn. The caller leaves.
func (e *Engine) newTry(t task, target digest.Digest) *try {
	if t.Caller == "" {
		return &try{tries: new(tries), leave: func() {}} // it shares nothing
	}
	key := t.checkKey()
	key.podNamespace = ""
	all, _, release := e.tries.Acquire(tryKey{key, target}, func() *tries { return new(tries) })
	return &try{tries: all, podNamespace: t.PodNamespace, number: all.begun.Load(), leave: func() { release() }}
}

// shared returns why a try failed that began after this request came; nil for
// none. A refusal is shared with no other namespace: it takes proofs away. found says that
// the image is on the node. It is called at the request's turn.
func (y *try) shared(found bool) *resolver.Error {
	y.mu.Lock()
	defer y.mu.Unlock()
	last := failedTry{number: y.number}
	for namespace, other := range y.failed {
		mine := namespace == y.podNamespace || len(other.cause.Refusals()) == 0
		if mine && (other.found || !found) && other.number > last.number {
			last = other
		}
	}
	return last.cause
}

// begin and fail are called at the request's turn.
func (y *try) begin(found bool) { y.number, y.found = y.begun.Add(1), found }

func (y *try) fail(cause *resolver.Error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.failed == nil {
		y.failed = map[store.Fingerprint]failedTry{}
	}
	y.failed[y.podNamespace] = failedTry{y.number, y.found, cause}
}
