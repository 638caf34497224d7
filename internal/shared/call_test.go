// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// asking is work that can be joined until it ends.
func asking[V any](work func(context.Context) (V, error)) Work[V, V] {
	var err error
	return Work[V, V]{
		Ask: func(ctx context.Context, _ func()) (v V) {
			v, err = work(ctx)
			return v
		},
		Within: time.Hour,
		Act:    func(_ context.Context, v V) (V, error) { return v, err },
	}
}

func TestCallIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			g      Group[string, string, string]
			works  atomic.Int32
			joined atomic.Int32
		)
		work := func(ctx context.Context) (string, error) {
			works.Add(1)
			time.Sleep(time.Second)
			return "id", ctx.Err()
		}
		for range 100 {
			go func() {
				v, j, err := g.Do(t.Context(), "a", asking(work))
				if err != nil || v != "id" {
					t.Errorf("%q, %v", v, err)
				}
				if j {
					joined.Add(1)
				}
			}()
		}
		// Others do not share.
		go func() { _, _, _ = g.Do(t.Context(), "b", asking(work)) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if works.Load() != 2 || joined.Load() != 99 {
			t.Errorf("%d works, %d joined", works.Load(), joined.Load())
		}
		if n := g.calls.Len(); n != 0 {
			t.Errorf("%d calls are left behind", n)
		}
	})
}

// A caller that goes away never fails the others; the last one to leave stops
// the work.
func TestCallOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, string, string]
		stopped := make(chan error, 1)
		work := func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Second):
				stopped <- nil
			case <-ctx.Done():
				stopped <- ctx.Err()
			}
			return "id", ctx.Err()
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		defer leaveToo()
		results := make(chan error, 2)
		for _, ctx := range []context.Context{first, second} {
			go func() {
				_, _, err := g.Do(ctx, "", asking(work))
				results <- err
			}()
			synctest.Wait()
		}
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		if err := <-results; err != nil {
			t.Errorf("the second caller got %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("the work was stopped: %v", err)
		}

		first, leave = context.WithCancel(t.Context())
		go func() {
			_, _, err := g.Do(first, "", asking(work))
			results <- err
		}()
		synctest.Wait()
		leave()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("the abandoned work ended with %v", err)
		}
		<-results
	})
}

// The next caller after an abandoned call does not get its cancellation.
func TestAbandonedCallIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, string, string]
		slow := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // takes its time to end
			return "", ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _, _ = g.Do(ctx, "", asking(slow)) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		v, joined, err := g.Do(t.Context(), "", asking(func(context.Context) (string, error) { return "id", nil }))
		if joined || err != nil || v != "id" {
			t.Errorf("%q, joined %v, %v", v, joined, err)
		}
		time.Sleep(2 * time.Second)
	})
}

// The last waiter returns when the work has ended, those before it at once.
func TestLastWaiterWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, string, string]
		work := func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return "", ctx.Err()
		}
		begun := time.Now()
		left := make(chan time.Duration, 2)
		for i := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Minute)
			defer cancel()
			go func() {
				_, _, err := g.Do(ctx, "", asking(work))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				left <- time.Since(begun)
			}()
		}
		if first, last := <-left, <-left; first != time.Minute || last != 2*time.Minute+time.Second {
			t.Errorf("left after %s and %s", first, last)
		}
	})
}

type contextKey struct{}

func TestWorkHasTheValuesOfItsFirstCaller(t *testing.T) {
	var g Group[string, any, any]
	ctx := context.WithValue(t.Context(), contextKey{}, "namespace")
	got, joined, err := g.Do(ctx, "", asking(func(ctx context.Context) (any, error) { return ctx.Value(contextKey{}), nil }))
	if got != "namespace" || joined || err != nil {
		t.Errorf("%v, joined %v, %v", got, joined, err)
	}
}

// Nobody joins work that has its answer, or work that is well under way: the
// next caller asks anew, while those before it go on.
func TestCallIsJoinedWhileItAsks(t *testing.T) {
	for what, tc := range map[string]struct {
		at           time.Duration
		works, joins int32
	}{
		"at once":          {0, 1, 1},
		"before the bound": {900 * time.Millisecond, 1, 1},
		"after the bound":  {1100 * time.Millisecond, 2, 0},
		"after the asking": {2100 * time.Millisecond, 2, 0},
		"after the end":    {10 * time.Second, 2, 0},
		"answered early":   {300 * time.Millisecond, 2, 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					g             Group[string, int32, int32]
					works, joined atomic.Int32
				)
				work := Work[int32, int32]{
					Ask: func(_ context.Context, answered func()) int32 {
						time.Sleep(200 * time.Millisecond)
						if what == "answered early" {
							answered()
							answered()
						}
						time.Sleep(1800 * time.Millisecond)
						return works.Add(1)
					},
					Within: time.Second,
					Act: func(_ context.Context, answer int32) (int32, error) {
						time.Sleep(5 * time.Second)
						return answer, nil
					},
				}
				for i := range 2 {
					go func() {
						answer, j, err := g.Do(t.Context(), "", work)
						if err != nil || !j && int(answer) != i+1 {
							t.Errorf("caller %d has answer %d, %v", i, answer, err)
						}
						if j {
							joined.Add(1)
						}
					}()
					synctest.Wait()
					time.Sleep(tc.at)
				}
				time.Sleep(time.Minute)
				if works.Load() != tc.works || joined.Load() != tc.joins {
					t.Errorf("%d works, %d joined", works.Load(), joined.Load())
				}
				if n := g.calls.Len(); n != 0 {
					t.Errorf("%d calls are left behind", n)
				}
			})
		})
	}
}
