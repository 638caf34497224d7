// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A check presumes what the host wants. The token server answers 503, and then it refuses. A check
// of the same repository, which is open to all, begins between the two tries and has its answer
// without a token: that confirms nothing that was presumed, and a pull asks the host without, too.
func TestAnswerWithoutATokenConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, tried := tokenServers(), 0
		slow := servers["presumed.test"]
		servers["presumed.test"] = func(req *http.Request) (*http.Response, error) {
			if tried++; tried == 1 {
				return nil, &fault.Fault{Class: failure.Unavailable, Status: 503, Temporary: true, Err: errors.New("503")}
			}
			return slow(req) // a second
		}
		s := newSessions(servers)
		checks := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check, Last: true})
		pulls := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch, Last: true})

		// One repository of the host has named its token server.
		if err := s.begin("team/a").AddResponses(checks, challengeAt("presumed.test", "team/a")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		// A check of another one presumes the same, and waits to try again.
		done := make(chan error, 1)
		go func() { done <- s.begin("team/b").Authorize(checks, toHost()) }()
		synctest.Wait()
		// A second check of that one is answered without a token.
		second, plain := s.begin("team/b"), toHost()
		if err := second.Authorize(checks, plain); err != nil || plain.Header.Get("Authorization") != "" {
			t.Fatal(err, plain.Header)
		}
		time.Sleep(500 * time.Millisecond) // the answer takes its time; the first check tries again
		second.Finish(true)
		// A pull follows.
		began, pull := time.Now(), toHost()
		err := s.begin("team/b").Authorize(pulls, pull)
		if took := time.Since(began); err != nil || took > 0 || pull.Header.Get("Authorization") != "" {
			t.Errorf("after %v, the pull got %q, %v", took, pull.Header.Get("Authorization"), err)
		}
		if f, ok := fault.As(err); ok && f.Class.Refuses() && !f.Elsewhere {
			t.Errorf("this counts as a refusal by the host, and ends the caller's proofs: %s", f.Class)
		}
		<-done
	})
}
