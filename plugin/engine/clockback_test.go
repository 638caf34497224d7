// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLateAnswerFromBeforeTheClockWentBack holds that an answer which came while the clock was an hour ahead
// makes no check one of the future, where it is acted upon after that.
func TestLateAnswerFromBeforeTheClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		record := cachedImage(first, time.Now())
		n := &node{remote: first, record: record, packed: true}
		ctx, s := storeOf(t, record.State)
		e := n.engine(rule(`policy = "IfDigestChanged"`, `max_stale = "1h"`))
		onStore(e, s)
		e.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		slow, other := n.request(nil), n.request(nil)
		slow.PodNamespace, slow.Runtime = "slow", slowSnapshotter{n}
		ahead.Store(int64(time.Hour))
		done := make(chan struct{})
		go func() { defer close(done); _, _ = e.Ensure(ctx, slow) }()
		time.Sleep(time.Minute)
		ahead.Store(0)
		n.othersHaveIt()
		if o, err := e.Ensure(ctx, other); o.Kind != Unchanged {
			t.Fatalf("the other: %s (%s), %v", o.Kind, o.Reason, err)
		}
		<-done
		n.fall()
		time.Sleep(time.Minute)
		if o, err := e.Ensure(ctx, other); o.Kind != UsedCached {
			t.Errorf("two minutes after a yes: %s (%s), %v", o.Kind, o.Reason, err)
		}
	})
}
