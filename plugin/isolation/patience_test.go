// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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

// A pull that is hurried takes over what another one has had for a tenth of its patience, but a download from its own source. No pull
// waits for other repositories for longer than its context says.
func TestHurriedPull(t *testing.T) {
	const snapshot = "sn://sha256:1"
	for what, tc := range map[string]struct {
		repository, key string
		hurried, want   time.Duration
	}{
		"at once":                          {"registry.test/other", snapshot, 0, 6 * time.Second},
		"unpacked in another repository":   {"registry.test/other", snapshot, 8 * time.Second, 8 * time.Second},
		"unpacked from the source":         {"registry.test/app", snapshot, 8 * time.Second, 8 * time.Second},
		"downloaded in another repository": {"registry.test/other", blob, 8 * time.Second, 8 * time.Second},
		"downloaded from the source":       {"registry.test/app", blob, 0, time.Hour},
		"out of patience":                  {"registry.test/other", blob, time.Minute, 10 * time.Second},
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
				time.AfterFunc(tc.hurried, hurry)
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

// Of many pulls that are hurried, one begins the work once more at a time, and the others wait for that.
func TestHurriedPullsTakeTurns(t *testing.T) {
	for _, of := range []string{"registry.test/app", "registry.test/%d"} {
		synctest.Test(t, func(t *testing.T) {
			var p pulls
			var unpacks atomic.Int32
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					ctx := With(t.Context(), Source{Repository: strings.ReplaceAll(of, "%d", fmt.Sprint(i)), Caller: "alice"}.Scope())
					ctx, hurry := WithPatience(ctx, time.Time{})
					defer hurry()
					time.AfterFunc(6*time.Second, hurry)
					l := newLocker(ctx, &p.turns, time.Minute)
					waits(t, l, "sn://sha256:1")
					if time.Since(synctestBegan) < 20*time.Second {
						unpacks.Add(1)
						time.Sleep(time.Until(synctestBegan.Add(20 * time.Second))) // it is there then
					}
					l.Unlock("sn://sha256:1")
				})
			}
			wg.Wait()
			if n := unpacks.Load(); n > 4 {
				t.Errorf("%d pulls of %s have unpacked a layer, which takes a third of their patience", n, of)
			}
			if len(p.turns.all) > 0 {
				t.Errorf("%v are left", p.turns.all)
			}
		})
	}
}

// synctestBegan is the time at which each bubble of synctest begins.
var synctestBegan = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A pull that is hurried takes over nothing that another one is at: a download of which bytes come, or a layer that is being unpacked.
func TestNobodyTakesOverWhatIsGoingOn(t *testing.T) {
	a := digest.FromString("a unpacked")
	snapshot, of := "sn://overlayfs/"+a.String(), layerOf("a").Digest
	for what, key := range map[string]string{"downloaded": "blob://" + of.String(), "unpacked": snapshot} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pulls
				first := p.of("registry.test/other", "alice")
				ctx, hurry := WithPatience(With(t.Context(), Source{Repository: "registry.test/app", Caller: "alice"}.Scope()), time.Time{})
				hurry()
				second := newLocker(ctx, &p.turns, time.Minute)
				for _, l := range []*locker{first, second} {
					l.layers.image(t, configOf(a), []ocispec.Descriptor{layerOf("a")})
				}
				waits(t, first, key)
				go func() {
					if key == snapshot {
						defer first.progress.unpacks(of)()
						time.Sleep(20 * time.Second)
						return
					}
					for range 10 {
						first.progress.receives(of)
						time.Sleep(2 * time.Second)
					}
				}()
				want := 20 * time.Second
				if key != snapshot {
					want = 24 * time.Second // a tenth after the last bytes, which come at 18 s
				}
				if got := waits(t, second, key); got < want || got > want+2*time.Second {
					t.Errorf("waited %v, want %v", got, want)
				}
				first.Unlock(key)
				second.Unlock(key)
				if len(p.turns.all) > 0 {
					t.Errorf("%v are left", p.turns.all)
				}
			})
		})
	}
}

// Who waits passes on what it has of the registry as soon as the turn that it waits for is that of another pull of its source.
func TestSourceTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		busy := p.of("registry.test/busy", "alice")
		waits(t, busy, blob)
		theirs, byURL := p.of("registry.test/theirs", "alice"), p.of("registry.test/theirs", "alice")
		waits(t, theirs, "sn://sha256:1")
		done := make(chan struct{})
		go func() {
			defer close(done)
			waits(t, theirs, blob)
		}()
		synctest.Wait()
		byURL.leaveRegistry()
		waits(t, byURL, blob)
		busy.Unlock(blob)
		pull := p.of("registry.test/app", "alice")
		if got := waits(t, pull, "sn://sha256:1"); got > lookInterval {
			t.Errorf("waited %v for a pull that waits for one which may follow urls", got)
		}
		pull.Unlock("sn://sha256:1")
		time.Sleep(time.Hour)
		byURL.Unlock(blob)
		<-done
		theirs.Unlock(blob)
		theirs.Unlock("sn://sha256:1")
		if len(p.turns.all) > 0 {
			t.Errorf("%v are left", p.turns.all)
		}
	})
}

// The turns of a pull that ends go to whoever has come first, be it from its own source or from another repository.
func TestOrderOfThoseWhoWait(t *testing.T) {
	for _, all := range [][]string{{"registry.test/app", "registry.test/other"}, {"registry.test/other", "registry.test/app"}} {
		synctest.Test(t, func(t *testing.T) {
			var p pulls
			first := p.of("registry.test/app", "alice")
			waits(t, first, blob)
			var came []string
			var wg sync.WaitGroup
			for _, repository := range all {
				wg.Go(func() {
					l := p.of(repository, "alice")
					waits(t, l, blob)
					came = append(came, repository)
					l.Unlock(blob)
				})
				synctest.Wait()
			}
			first.Unlock(blob)
			wg.Wait()
			if !slices.Equal(came, all) {
				t.Errorf("%v have come in place of %v", came, all)
			}
		})
	}
}

// Turns are taken together, or not at all, in the order of those who wait for nothing else.
func TestTurns(t *testing.T) {
	key := func(k string) turnKey { return turnKey{key: k} }
	never := work{progress: new(progress)}
	var ts turns
	has := func(w *taker) bool { return !w.waits() }
	a, ab := ts.take(never, key("a")), ts.take(never, key("a"), key("b"))
	b, b2 := ts.take(never, key("b")), ts.take(never, key("b"))
	ab2 := ts.take(never, key("a"), key("b"))
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
