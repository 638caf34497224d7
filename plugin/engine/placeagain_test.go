// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A request whose pull_deadline is over, and which has found no place in the background, waits until a
// place is free, also where the pull of another request that it has waited for came to nothing meanwhile.
func TestPlaceAfterAPullThatCameToNothing(t *testing.T) {
	for what, busy := range map[string]int{"with places": 0, "without a place for 20s": maxShare} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), named: true, pullTakes: 10 * time.Second, pullErr: errTest}
			e := n.engine(rule(`policy = "IfDigestChanged"`))
			e.Now, e.Observe = time.Now, nil
			n.onPull = func() {
				if n.pulls > 1 {
					n.pullErr, n.pullTakes = nil, time.Hour
				}
			}
			request := func(deadline string) Request {
				r := n.request(map[string]string{"pullwarden.io/pull-deadline": deadline})
				r.PodNamespace = "x"
				return r
			}
			others := make([]*sharedPull, busy) // pulls of other names of the registry, in the background
			for i := range others {
				p, _ := e.pulls.join(pullKey{name: string(rune('a' + i))}, func(*sharedPull) bool { return true })
				p.cancel = func(error) {}
				if kept := e.pulls.keep(p, place{registry: "registry.test", named: true, namespace: "x"}); !kept {
					t.Fatal("not kept")
				}
				others[i] = p
			}
			long := arrive(t, e, request("1h"))
			time.Sleep(100 * time.Millisecond)
			short := arrive(t, e, request("1s"))
			time.Sleep(9950 * time.Millisecond) // the pull has failed by a full disk
			if o := <-long; o.outcome.Reason != ReasonPull {
				t.Fatalf("%s (%s)", o.outcome.Kind, o.outcome.Reason)
			}
			time.Sleep(10 * time.Second)
			for _, p := range others {
				e.pulls.end(p) // there is room again
			}
			if o := <-short; o.outcome.Reason != ReasonPullDeadline || o.took > 25*time.Second {
				t.Errorf("%s: under pull_deadline=1s: %s (%s) after %s", what, o.outcome.Kind, o.outcome.Reason, o.took)
			}
			time.Sleep(3 * time.Hour)
		})
	}
}
