// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMapDropsWhatNobodyHolds(t *testing.T) {
	var m Map[string, int]
	if _, ok := m.Peek("a"); ok {
		t.Error("an empty map has a value")
	}
	one, created, release := m.Acquire("a", func() int { return 1 })
	if one != 1 || !created {
		t.Errorf("got %d, created %v", one, created)
	}
	again, created, releaseAgain := m.Acquire("a", func() int { return 2 })
	if again != 1 || created {
		t.Errorf("while it is held: got %d, created %v", again, created)
	}
	if release() {
		t.Error("the first of two is the last")
	}
	if v, ok := m.Peek("a"); v != 1 || !ok {
		t.Errorf("one holder is left: %d, %v", v, ok)
	}
	if !releaseAgain() {
		t.Error("the last is not the last")
	}
	if _, ok := m.Peek("a"); ok || m.Len() != 0 {
		t.Errorf("%d values are left behind", m.Len())
	}
	if v, created, release := m.Acquire("a", func() int { return 3 }); v != 3 || !created || !release() {
		t.Errorf("afterwards: got %d, created %v", v, created)
	}
}

func TestMapForget(t *testing.T) {
	var m Map[string, int]
	m.Forget("a", 1) // nobody holds it
	_, _, release := m.Acquire("a", func() int { return 1 })
	m.Forget("a", 2) // is not the value
	if _, ok := m.Peek("a"); !ok {
		t.Error("the value of another was forgotten")
	}
	m.Forget("a", 1)
	if _, ok := m.Peek("a"); ok {
		t.Error("the value is still there")
	}
	v, created, releaseNew := m.Acquire("a", func() int { return 2 })
	if v != 2 || !created {
		t.Errorf("afterwards: got %d, created %v", v, created)
	}
	if !release() {
		t.Error("a forgotten value counts the holders of the new one")
	}
	if v, ok := m.Peek("a"); v != 2 || !ok {
		t.Errorf("the release of a forgotten value took the new one: %d, %v", v, ok)
	}
	if !releaseNew() || m.Len() != 0 {
		t.Errorf("%d values are left behind", m.Len())
	}
}

func TestMapUnderContention(t *testing.T) {
	var (
		m  Map[int, *int]
		wg sync.WaitGroup
	)
	for i := range 30 {
		wg.Go(func() {
			for j := range 200 {
				key := (i + j) % 3
				v, _, release := m.Acquire(key, func() *int { return new(int) })
				if now, ok := m.Peek(key); !ok || now != v {
					t.Errorf("key %d has another value while one is held", key)
				}
				release()
			}
		})
	}
	wg.Wait()
	if m.Len() != 0 {
		t.Errorf("%d values are left behind", m.Len())
	}
}
