// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A limit counts for its time, also for who has more of it than a check that had timed out before.
func TestLimitAfterTheTimeOutOfAShortCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		b.View(team("a")).Failed(host, nil, keptWaiting(time.Second, true))
		time.Sleep(10 * time.Second)
		b.View(team("a")).Failed(host, nil, Failure{Class: failure.RateLimited, Reason: "429", RetryAfter: maxLimit})
		for _, left := range []time.Duration{5 * time.Second, 0} {
			if b.View(team("a")).Trouble(host, left) == nil {
				t.Errorf("it is asked with %v left", left)
			}
		}
	})
}
