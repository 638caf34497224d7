// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/internal/shared"
)

const blob = "blob://sha256:1"

// pulls makes lockers of pulls that take turns.
type pulls struct{ turns shared.Lock[turnKey] }

func (p *pulls) of(repository, caller string) *locker {
	return newLocker(Source{Repository: repository, Caller: caller}.Scope(), &p.turns, time.Minute)
}

// waits returns how long a pull waits for a turn. It does not give it back.
func waits(t *testing.T, l *locker, key string) time.Duration {
	t.Helper()
	began := time.Now()
	if err := l.Lock(t.Context(), key); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

func TestLocker(t *testing.T) {
	for what, tc := range map[string]struct {
		repository, caller string
		want               time.Duration
	}{
		"the same source":    {"registry.test/app", "alice", time.Hour},
		"another repository": {"registry.test/other", "alice", time.Minute},
		"another caller":     {"registry.test/app", "bob", 0},
		"another registry":   {"other.test/app", "alice", 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pulls
				first, second := p.of("registry.test/app", "alice"), p.of(tc.repository, tc.caller)
				waits(t, first, blob)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if got := waits(t, second, blob); got != tc.want {
						t.Errorf("waited %v, want %v", got, tc.want)
					}
					second.Unlock(blob)
				}()
				time.Sleep(time.Hour)
				first.Unlock(blob)
				<-done
			})
		})
	}
}

// The patience of a pull is one for all that it waits for, and counts from the
// first wait.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		slow, pull := p.of("registry.test/slow", "alice"), p.of("registry.test/app", "alice")
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			waits(t, slow, key)
		}
		time.Sleep(time.Hour)
		waits(t, pull, "free")
		time.AfterFunc(45*time.Second, func() { slow.Unlock("a") })
		for i, want := range []time.Duration{45 * time.Second, 15 * time.Second, 0} {
			if got := waits(t, pull, keys[i]); got != want {
				t.Errorf("waited %v for %s, want %v", got, keys[i], want)
			}
		}
		for _, key := range []string{"a", "b", "c", "free"} {
			pull.Unlock(key)
		}
		slow.Unlock("b")
		slow.Unlock("c")
		if len(pull.held) > 0 || len(slow.held) > 0 {
			t.Errorf("%v and %v are left", pull.held, slow.held)
		}
		if got := waits(t, p.of("registry.test/app", "alice"), "b"); got != 0 {
			t.Errorf("a turn was not passed on: %v", got)
		}
	})
}

// A pull that ends while it waits holds nothing, whomever it waits for.
func TestLockerCanceled(t *testing.T) {
	for _, repository := range []string{"registry.test/app", "registry.test/other"} {
		synctest.Test(t, func(t *testing.T) {
			var p pulls
			first, second := p.of("registry.test/app", "alice"), p.of(repository, "alice")
			waits(t, first, blob)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := second.Lock(ctx, blob); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			first.Unlock(blob)
			if got := waits(t, p.of(repository, "alice"), blob); got != 0 || len(second.held) > 0 {
				t.Errorf("the turn is still held: %v", second.held)
			}
		})
	}
}
