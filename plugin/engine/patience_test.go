// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// Who has a turn loses the patience for other repositories at once where somebody with other credentials stands in the line,
// and with the same ones once that has stood there for as long as one pull may: all who have the turn before count together.
func TestPatienceInLines(t *testing.T) {
	of := func(caller string) isolation.Scope { return isolation.Source{Caller: caller}.Scope() }
	for caller, want := range map[string]string{"bob": "[0s 0s]", "alice": "[1m0s 0s]"} {
		synctest.Test(t, func(t *testing.T) {
			var l lines
			var got []time.Duration
			hold := func(ctx context.Context, unlock func()) { // until the patience is over
				began := time.Now()
				<-isolation.Patience(ctx).Done()
				got = append(got, time.Since(began))
				unlock()
			}
			ctx, unlock, ok := l.TryLock(t.Context(), name, of("alice"))
			if !ok {
				t.Fatal("the turn is taken")
			}
			go func() {
				ctx, unlock, err := l.Lock(t.Context(), name, of("alice"), time.Hour)
				must(t, err)
				hold(ctx, unlock)
			}()
			synctest.Wait()
			last := make(chan struct{})
			go func() {
				defer close(last)
				_, unlock, err := l.Lock(t.Context(), name, of(caller), time.Minute)
				must(t, err)
				unlock()
			}()
			hold(ctx, unlock)
			<-last
			if s := fmt.Sprint(got); s != want || len(l.all) != 0 {
				t.Errorf("behind %s: %s, want %s; %d lines are left", caller, s, want, len(l.all))
			}
			left, cancel := context.WithCancel(t.Context())
			cancel()
			_, unlock, _ = l.TryLock(t.Context(), name, of("alice"))
			if _, _, err := l.Lock(left, name, of("bob"), 0); err == nil {
				t.Error("somebody who has left gets the turn")
			}
			unlock()
			if len(l.all) != 0 {
				t.Error("a line is left")
			}
		})
	}
}
