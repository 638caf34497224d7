// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
)

// A storm of equal requests, until the registry answers, is one check and one
// pull.
func TestStormIsOneCheckAndOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		gate := make(chan struct{})
		n.onCheck = func() { <-gate }
		e := n.engine("# none")
		e.Observe = nil
		const pods = 50
		results := make(chan error, pods)
		for range pods {
			go func() {
				_, err := e.Ensure(t.Context(), n.request(nil))
				results <- err
			}()
		}
		synctest.Wait()
		close(gate)
		for range pods {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if n.checks != 1 || n.pulls != 1 {
			t.Errorf("%d checks, %d pulls", n.checks, n.pulls)
		}
	})
}

// Callers that cannot be told apart share nothing.
func TestUnknownCallersShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		e := n.engine("# none")
		e.Observe = nil
		gate := make(chan struct{})
		n.onCheck = func() { <-gate }
		results := make(chan Outcome, 2)
		for range 2 {
			go func() {
				req := n.request(nil)
				req.Caller = ""
				o, _ := e.Ensure(t.Context(), req)
				results <- o
			}()
		}
		synctest.Wait()
		if n.checks != 2 {
			t.Errorf("%d checks", n.checks)
		}
		close(gate)
		for range 2 {
			if o := <-results; o.Coalesced || o.Kind == Failed {
				t.Errorf("%s, coalesced %v: %v", o.Kind, o.Coalesced, o.Err)
			}
		}
	})
}
