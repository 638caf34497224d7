// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestKeyedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keyedLock
		ctx := t.Context()
		check(t, k.Lock(ctx, "a"))
		check(t, k.Lock(ctx, "b")) // another key does not wait

		canceled, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() { failed <- k.Lock(canceled, "a") }()
		got := make(chan error, 1)
		go func() { got <- k.Lock(ctx, "a") }()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case <-got:
			t.Error("two have the turn")
		default:
		}
		k.Unlock("a")
		check(t, <-got)
		k.Unlock("a")
		k.Unlock("b")
		k.held.Range(func(key, _ any) bool {
			t.Errorf("%v is left", key)
			return true
		})
	})
}
