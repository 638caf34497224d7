// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/store"
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

// marksAt has the time of the last check.
type marksAt struct {
	Marks
	at time.Time
}

func (m *marksAt) MarkVerified(_ context.Context, _ digest.Digest, v store.Verified, _ store.Proved, _ ...string) {
	m.at = v.At
}

// TestTimeOfAnAnswerIsThatOfTheWallClock holds that times of answers are compared by the clock by which labels have them:
// those of one process are compared by another one, which knows nothing of its being set.
func TestTimeOfAnAnswerIsThatOfTheWallClock(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, time.Now())}
	e := n.engine(rule(`policy = "IfDigestChanged"`))
	marks := &marksAt{Marks: e.Marks}
	e.Now, e.Marks = time.Now, marks
	if o, err := e.Ensure(t.Context(), n.request(nil)); o.Kind != Unchanged {
		t.Fatalf("%s (%s), %v", o.Kind, o.Reason, err)
	}
	if text := marks.at.String(); marks.at.IsZero() || strings.Contains(text, " m=") {
		t.Errorf("the answer is of %s", text)
	}
}
