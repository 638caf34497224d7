// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// Who stands in a line hurries all that have the turn before once it has stood there for a tenth of what a pull waits for others; and
// the time in the line counts as waited for them.
func TestPatienceInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		began := time.Now()
		hurried := func(ctx context.Context, want time.Duration) {
			t.Helper()
			<-hurriedOf(ctx)
			if got := time.Since(began); got != want {
				t.Errorf("hurried after %v, want %v", got, want)
			}
		}
		ctx, unlock, ok := l.TryLock(t.Context(), name)
		if until, _ := isolation.PatienceOf(ctx); !ok || !until.IsZero() {
			t.Fatalf("who has not waited has the turn: %v; until %v", ok, until)
		}
		ends := make(chan struct{}, 2)
		go func() {
			defer func() { ends <- struct{}{} }()
			ctx, unlock, err := l.Lock(t.Context(), name, time.Hour)
			must(t, err)
			if until, _ := isolation.PatienceOf(ctx); !until.Equal(began.Add(time.Hour)) {
				t.Errorf("waits until %v for others", until)
			}
			hurried(ctx, 6*time.Second)
			unlock()
		}()
		synctest.Wait()
		go func() {
			defer func() { ends <- struct{}{} }()
			_, unlock, err := l.Lock(t.Context(), name, time.Minute)
			must(t, err)
			unlock()
		}()
		hurried(ctx, 6*time.Second)
		unlock()
		<-ends
		<-ends
		if len(l.all) != 0 {
			t.Errorf("%d lines are left", len(l.all))
		}
	})
}

// Who has left a line hurries nobody, and gets no turn.
func TestWhoHasLeftALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		ctx, unlock, _ := l.TryLock(t.Context(), name)
		left, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := l.Lock(left, name, -1); err == nil {
			t.Error("somebody who has left gets the turn")
		}
		time.Sleep(time.Hour)
		select {
		case <-hurriedOf(ctx):
			t.Error("somebody who has left hurries others")
		default:
		}
		unlock()
		if len(l.all) != 0 {
			t.Error("a line is left")
		}
	})
}

func hurriedOf(ctx context.Context) <-chan struct{} {
	_, hurried := isolation.PatienceOf(ctx)
	return hurried
}
