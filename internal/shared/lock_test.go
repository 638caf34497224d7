// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock[string]
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		// Another key does not wait.
		other, err := l.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()

		got := make(chan struct{})
		go func() {
			second, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			close(got)
			second()
		}()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := l.Lock(ctx, "a")
			gone <- err
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("two have the same turn")
		default:
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter that went away got %v", err)
		}
		unlock()
		<-got
		synctest.Wait()
		if n := l.tokens.Len(); n != 0 {
			t.Errorf("%d turns are left behind", n)
		}
	})
}

func TestLockExcludes(t *testing.T) {
	var (
		l  Lock[string]
		n  int
		wg sync.WaitGroup
	)
	for range 50 {
		wg.Go(func() {
			unlock, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			n++ // the race detector watches
			unlock()
		})
	}
	wg.Wait()
	if n != 50 {
		t.Errorf("%d", n)
	}
}

func TestTryLock(t *testing.T) {
	var l Lock[string]
	unlock, ok := l.TryLock("a")
	if !ok {
		t.Fatal("a free turn was not taken")
	}
	if _, ok := l.TryLock("a"); ok {
		t.Error("two have the turn")
	}
	if other, ok := l.TryLock("b"); !ok {
		t.Error("another key waits")
	} else {
		other()
	}
	unlock()
	if n := l.tokens.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
