// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// However many pulls of one source wait for another repository, by other names: each waits for as long as its own patience
// from when it began to, and none for theirs.
func TestPatienceOfAllPullsOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		hangs := p.of("registry.test/evil", "alice")
		waits(t, hangs, blob)
		for range 4 {
			go func() {
				l := p.of("registry.test/app", "alice")
				waits(t, l, blob)
				time.Sleep(time.Second)
				l.Unlock(blob)
			}()
			time.Sleep(time.Second)
		}
		pull := p.of("registry.test/app", "alice")
		if got := waits(t, pull, blob); got != time.Minute {
			t.Errorf("waited %v in all, want %v", got, time.Minute)
		}
		pull.Unlock(blob)
		hangs.Unlock(blob)
		if len(p.turns.all) > 0 {
			t.Errorf("%v are left", p.turns.all)
		}
	})
}

// A pull that is hurried waits for nobody who unpacks, also of its own source, and for content as before. No pull
// waits for other repositories for longer than its context says.
func TestHurriedPull(t *testing.T) {
	const snapshot = "sn://sha256:1"
	for what, tc := range map[string]struct {
		repository, key string
		want            time.Duration
	}{
		"unpacked in another repository":   {"registry.test/other", snapshot, time.Second},
		"unpacked from the source":         {"registry.test/app", snapshot, time.Second},
		"downloaded in another repository": {"registry.test/other", blob, 10 * time.Second},
		"downloaded from the source":       {"registry.test/app", blob, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pulls
				first := p.of(tc.repository, "alice")
				waits(t, first, tc.key)
				ctx := With(t.Context(), Source{Repository: "registry.test/app", Caller: "alice"}.Scope())
				ctx, end := WithPatience(ctx, time.Now().Add(10*time.Second))
				defer end()
				ctx, hurry := WithPatience(ctx, time.Now().Add(time.Hour))
				defer hurry()
				time.AfterFunc(time.Second, hurry)
				second := newLocker(ctx, &p.turns, time.Minute)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if got := waits(t, second, tc.key); got != tc.want {
						t.Errorf("waited %v, want %v", got, tc.want)
					}
				}()
				time.Sleep(time.Hour)
				first.Unlock(tc.key)
				<-done
				second.Unlock(tc.key)
				if len(p.turns.all) > 0 {
					t.Errorf("%v are left", p.turns.all)
				}
			})
		})
	}
}

// Turns are taken together, or not at all, in the order of those who wait for nothing else.
func TestTurns(t *testing.T) {
	key := func(k string) turnKey { return turnKey{key: k} }
	var ts turns
	has := func(w *taker) bool { return !w.waits() }
	a, ab := ts.take(key("a")), ts.take(key("a"), key("b"))
	b, b2 := ts.take(key("b")), ts.take(key("b"))
	ab2 := ts.take(key("a"), key("b"))
	if !has(a) || has(ab) || !has(b) || has(b2) || has(ab2) {
		t.Fatal("who waits for one turn has another")
	}
	ts.leave(a, key("a"))
	if has(ab) {
		t.Error("got a turn that somebody has")
	}
	ts.leave(b, key("b"))
	if !has(ab) || has(b2) {
		t.Error("the first who can go on has not got its turns")
	}
	ts.spare(ab2, key("a"))
	ts.leave(ab, key("b"))
	if !has(b2) || has(ab2) {
		t.Error("the second is not the next")
	}
	ts.leave(b2, key("b"), key("c"))
	if _, both := ab2.wants[key("a")]; !has(ab2) || both {
		t.Error("somebody waits for a turn that it can go on without, or has what another one has")
	}
	ts.leave(ab, key("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if newLocker(ctx, &ts, time.Minute).Lock(ctx, "x") == nil {
		t.Error("a pull that has ended has a turn")
	}
	ts.leave(ab2, key("a"), key("b"))
	if len(ts.all) > 0 {
		t.Errorf("%v are left", ts.all)
	}
}
