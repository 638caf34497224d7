// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// The registry client is told that the caller has no image, where a pull may follow: also
// where there is one that the caller has not proved.
func TestAbsentIsTold(t *testing.T) {
	here := func() *store.Record { return cachedImage(first, now.Add(-time.Hour)) }
	for name, test := range map[string]struct {
		record *store.Record
		broken bool
		caller Caller
		rules  string
		want   bool
	}{
		"absent":             {nil, false, alice, rule(), true},
		"absent, only asked": {nil, false, alice, rule(readManifest), true},
		"here":               {here(), false, alice, rule(), false},
		"another's":          {here(), false, bob, rule(), true},
		"nobody knows whose": {cachedImage(first, time.Time{}), false, alice, rule(), true},
		"cannot run":         {here(), true, alice, rule(), true},
		"from there":         {here(), false, alice, rule(`allowed_sources = ["registry.test"]`), false},
		"from elsewhere":     {here(), false, alice, rule(`allowed_sources = ["registry.test"]`), true},
	} {
		n := &node{record: test.record, remote: first, unrunnable: test.broken}
		if name == "from there" {
			n.record.PullSource = "registry.test/team/app:1"
		}
		req := n.request(nil)
		req.Caller = test.caller
		if _, err := n.engine(test.rules).Ensure(t.Context(), req); err != nil && !test.broken {
			t.Errorf("%s: %v", name, err)
		}
		if n.query.Absent != test.want {
			t.Errorf("%s: %+v", name, n.query)
		}
	}
}

// A question that no pull follows is asked as before: each manifest counts as a pull at
// some registries.
func TestAbsentIsOnlyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first}
		n.engine(rule()).Explain(t.Context(), n.request(nil), true)
		if n.checks != 1 || n.query.Absent {
			t.Errorf("explained: %d checks, %+v", n.checks, n.query)
		}
		n = &node{remote: first}
		n.ensureObserved(t, n.engine(rule(observing)), n.request(nil))
		if n.checks != 1 || n.query.Absent {
			t.Errorf("observed: %d checks, %+v", n.checks, n.query)
		}
	})
}
