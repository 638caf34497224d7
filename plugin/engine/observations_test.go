// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A registry that hangs holds no pull up, and Close ends what waits for it.
func TestObservedRegistryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, hangs: true}
		e := n.engine(rule(observing))
		began := time.Now()
		if o, err := e.Ensure(t.Context(), n.request(nil)); !o.Observed || err != nil {
			t.Errorf("%+v, %v", o, err)
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the pull took %v longer", waited)
		}
		synctest.Wait()
		if len(n.outcomes) != 0 {
			t.Errorf("told %+v while the registry hangs", n.outcomes)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if o := n.last(t); o.Kind != NotObserved || o.Reason != ReasonCanceled {
			t.Errorf("told %s (%s)", o.Kind, o.Reason)
		}
		if o, err := e.Ensure(t.Context(), n.request(nil)); !o.Observed || err != nil || n.stockPulls != 2 || len(n.outcomes) != 1 {
			t.Errorf("after Close: %+v, %v, %d pulls, %d outcomes", o, err, n.stockPulls, len(n.outcomes))
		}
	})
}

// The pull waits for the look at the node, and no longer than lookLimit.
func TestObservedLook(t *testing.T) {
	for _, limit := range []struct {
		look time.Duration
		wait time.Duration
		kind Kind
	}{
		{time.Millisecond, time.Millisecond, Pulled},
		{time.Hour, lookLimit, NotObserved},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: second, onLook: func(context.Context) { time.Sleep(limit.look) }}
			began, waited := time.Now(), time.Duration(0)
			n.onStock = func() { waited = time.Since(began) }
			if _, err := n.engine(rule(observing)).Ensure(t.Context(), n.request(nil)); err != nil || waited != limit.wait {
				t.Errorf("a look of %v: waited %v, %v", limit.look, waited, err)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if o := n.last(t); o.Kind != limit.kind || o.Kind == NotObserved && o.Reason != ReasonSlow {
				t.Errorf("a look of %v: told %s (%s)", limit.look, o.Kind, o.Reason)
			}
		})
	}
}

// Observations are bounded; a pull beyond the bound is told not to be observed.
func TestObservedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, hangs: true}
		e := n.engine(rule(observing))
		for range maxDeciding + 1 {
			if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if o := n.last(t); o.Kind != NotObserved || o.Reason != ReasonBusy || n.stockPulls != maxDeciding+1 {
			t.Errorf("told %s (%s), %d pulls", o.Kind, o.Reason, n.stockPulls)
		}
		e.Observe = nil
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// An observation that waits for the end of a long pull takes nobody's place.
func TestObservedLongPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		gate := make(chan struct{})
		n.onStock = func() { <-gate }
		e := n.engine(rule(observing))
		e.Observe = nil
		done := make(chan error)
		for range 3 * maxDeciding {
			go func() {
				_, err := e.Ensure(t.Context(), n.request(nil))
				done <- err
			}()
			synctest.Wait()
		}
		if n.checks != 3*maxDeciding {
			t.Errorf("%d checks", n.checks)
		}
		close(gate)
		for range 3 * maxDeciding {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// Close gives up on an observation that does not end.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		gate := make(chan struct{})
		n.onCheck = func() { <-gate }
		e := n.engine(rule(observing))
		if _, err := e.Ensure(t.Context(), n.request(nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until it hangs
		began := time.Now()
		if err := e.Close(); err == nil || time.Since(began) != closeLimit {
			t.Errorf("closed after %v: %v", time.Since(began), err)
		}
		close(gate)
	})
}

// A panic with a text of its own does not bring that text into the log.
func TestDescribeBug(t *testing.T) {
	var runtimeError any
	func() {
		defer func() { runtimeError = recover() }()
		none := []string{}
		none[len(observing)-1] = "" // out of range
	}()
	for _, tt := range []struct {
		recovered any
		want      string
	}{{runtimeError, fmt.Sprintf("runtime error: index out of range [%d] with length 0", len(observing)-1)}, {"password: secret", "a string"}, {errTest, "a *errors.errorString"}} {
		if got := describeBug(tt.recovered); got != tt.want {
			t.Errorf("described as %q, want %q", got, tt.want)
		}
	}
}
