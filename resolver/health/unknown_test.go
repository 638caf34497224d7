// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A probe that learns nothing leaves a host in the trouble that it is in, for 5 minutes at most, and puts it into none.
func TestProbesThatLearnNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(Verdict{Unknown: true}, 0)
		s.fail()
		s.wantOpen(failure.None)
		if states := s.States(); len(states) != 0 {
			t.Errorf("it is suspected by nothing: %+v", states)
		}

		s.set(silent, 0)
		s.fail()
		since := s.wantOpen(failure.Unreachable).Since
		s.set(Verdict{Unknown: true}, 0)
		for began, probes := time.Now(), s.count(); time.Since(began) < AskedLately; {
			time.Sleep(Fresh)
			if open := s.wantOpen(failure.Unreachable); open.Since != since {
				t.Fatalf("got %v", open)
			}
			s.wantOpen(failure.Unreachable)
			if probes++; s.count() != probes {
				t.Fatalf("%d probes, want %d: one a second", s.count(), probes)
			}
		}
		time.Sleep(Fresh)
		_ = s.Trouble(host)
		s.wantOpen(failure.None)

		s.set(silent, 0)
		s.fail()
		s.wantOpen(failure.Unreachable)
		s.set(Verdict{}, 0)
		time.Sleep(Fresh)
		_ = s.Trouble(host)
		s.wantOpen(failure.None)
	})
}
