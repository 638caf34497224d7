// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// A request whose deadline is over reads the manifest of the image that others have brought. The registry answers there: a
// mirror's proof of the old image, which is back by then, counts no more.
func TestAnswersToWhatWasReadOfAnArrivedImage(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, `resolve_from = "OriginThenMirrors"`)
			l.inNeed, l.hears = true, resolver.Heard{OriginAnswered: answered}
			old := l.record
			l.onNext = func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.record = old
				l.record.Access = map[store.Fingerprint]store.Proof{carol: {At: time.Now(), By: "mirror.test"}}
			}
			carols := l.from("c", carol)
			waits := l.begin(t, carols)
			a := <-waits
			if used := a.outcome.Kind == UsedCached; used == answered {
				t.Errorf("answered %t: %s (%s), %v", answered, a.outcome.Kind, a.outcome.Reason, a.outcome.Err)
			}
			close(l.hang)
			time.Sleep(time.Hour)
		})
	}
}
