// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"testing"

	"pgregory.net/rapid"
)

// machine makes random calls of a [Map] and knows what they must return: each
// value that was ever created is another number.
type machine struct {
	m       Map[int, int]
	created int
	current map[int]int // the value of each key
	holders []holder
}

type holder struct {
	key, value int
	release    func() bool
}

const machineKeys = 3

func (s *machine) Acquire(t *rapid.T) {
	key := rapid.IntRange(0, machineKeys-1).Draw(t, "key")
	s.created++
	want, held := s.current[key]
	if !held {
		want = s.created
	}
	value, created, release := s.m.Acquire(key, func() int { return s.created })
	if value != want || created == held {
		t.Fatalf("got %d, created %v, want %d", value, created, want)
	}
	s.current[key] = value
	s.holders = append(s.holders, holder{key, value, release})
}

func (s *machine) Release(t *rapid.T) {
	if len(s.holders) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.holders)-1).Draw(t, "holder")
	h := s.holders[i]
	s.holders = append(s.holders[:i:i], s.holders[i+1:]...)
	last := true
	for _, other := range s.holders {
		last = last && other.value != h.value
	}
	if last && s.current[h.key] == h.value {
		delete(s.current, h.key)
	}
	if got := h.release(); got != last {
		t.Fatalf("release of %d: last is %v", h.value, got)
	}
}

func (s *machine) Forget(t *rapid.T) {
	key := rapid.IntRange(0, machineKeys-1).Draw(t, "key")
	value := s.current[key] - rapid.IntRange(0, 1).Draw(t, "older by")
	if s.current[key] == value {
		delete(s.current, key)
	}
	s.m.Forget(key, value)
}

// Check is called after each of the others.
func (s *machine) Check(t *rapid.T) {
	if s.m.Len() != len(s.current) {
		t.Fatalf("%d values, want %d", s.m.Len(), len(s.current))
	}
	for key := range machineKeys {
		want, held := s.current[key]
		if value, ok := s.m.Peek(key); value != want || ok != held {
			t.Fatalf("key %d has %d, %v, want %d, %v", key, value, ok, want, held)
		}
	}
}

func TestMapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		t.Repeat(rapid.StateMachineActions(&machine{current: map[int]int{}}))
	})
}
