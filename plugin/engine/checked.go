// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"github.com/pullwarden/pullwarden/resolver"
)

// checked is a request whose check has been answered, or has failed. Requests
// that come later do not share it. It must be acted upon, which ends it.
type checked struct {
	course
	// session is that of the check; nil when no host could be asked: the course
	// has ended then.
	session resolver.Session
	// watch looks out for denials since the check began, and question for later answers.
	watch    denialWatches
	question *question
	// err is why the check failed, or was not made since the budget is used up (unasked).
	err     error
	unasked bool
	// others counts those who use it besides, each by a value of its own; nil = none.
	others *atomic.Int32
}

// share returns the check for a pull that goes on by itself from that course, beside the request. Each of the two ends it,
// and the last one does so for both. A denial that one of them meets is to the other as one in another request: it
// knows nothing of what the host has said there after that.
func (k *checked) share(c course) checked {
	if k.others == nil {
		k.others = new(atomic.Int32)
	}
	k.others.Add(1)
	other := *k
	other.course, other.watch = c, k.watch.copies()
	other.answer.watch = other.watch
	return other
}

// end ends a check.
func (k *checked) end() {
	if k.others != nil && k.others.Add(-1) >= 0 {
		return
	}
	if k.session != nil {
		k.session.Close()
	}
	k.watch.end()
	k.question.end()
}
