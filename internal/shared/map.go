// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shared holds what callers share by a key for as long as any of them
// needs it: values ([Map]), turns ([Lock]) and calls ([Group]). Nothing stays
// behind when the last of them has gone.
package shared

import "sync"

// Map counts who holds the value of a key, and drops it with the last. The zero
// value is ready, and safe for concurrent use. It must not be copied.
type Map[K, V comparable] struct {
	mu   sync.Mutex
	held map[K]*entry[V]
}

// entry is a value that somebody holds.
type entry[V comparable] struct {
	value   V
	holders int
}

// Acquire returns the value of key, made by create if nobody holds it, and the
// function that gives it back, which must be called once and reports whether
// that was its last holder. Between the last release and the next Acquire the
// map has no value of the key. create runs under the map's lock: it must be
// quick and not use the map.
func (m *Map[K, V]) Acquire(key K, create func() V) (value V, created bool, release func() (last bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[key]
	if e == nil {
		e, created = &entry[V]{value: create()}, true
		if m.held == nil {
			m.held = map[K]*entry[V]{}
		}
		m.held[key] = e
	}
	e.holders++
	return e.value, created, func() bool { return m.release(key, e) }
}

func (m *Map[K, V]) release(key K, e *entry[V]) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.holders--
	if e.holders == 0 && m.held[key] == e {
		delete(m.held, key)
	}
	return e.holders == 0
}

// Peek returns the value of key, if somebody holds it, without holding it.
func (m *Map[K, V]) Peek(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.held[key]; e != nil {
		return e.value, true
	}
	return value, false
}

// Forget makes the next Acquire of key create a new value, although this one is
// still held. It does nothing if the key has another value by now. Holders of the
// forgotten value release it as usual.
func (m *Map[K, V]) Forget(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.held[key]; e != nil && e.value == value {
		delete(m.held, key)
	}
}

// Len returns how many keys have a value.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}
