// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import "container/list"

// lru is a bounded map that drops what was not used for longest. Not safe for
// concurrent use.
type lru[K comparable, V any] struct {
	max   int
	order list.List // of *entry[K, V], the last used in front
	items map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](most int) *lru[K, V] {
	return &lru[K, V]{max: most, items: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.items[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// put stores a value that get did not find, and returns the one that had to
// go.
func (l *lru[K, V]) put(key K, value V) (dropped V, full bool) {
	l.items[key] = l.order.PushFront(&entry[K, V]{key, value})
	if l.order.Len() <= l.max {
		return dropped, false
	}
	last := l.order.Back().Value.(*entry[K, V])
	l.remove(last.key)
	return last.value, true
}

func (l *lru[K, V]) remove(key K) {
	if e, ok := l.items[key]; ok {
		l.order.Remove(e)
		delete(l.items, key)
	}
}

// removeIf removes what a condition holds for, and returns it.
func (l *lru[K, V]) removeIf(condition func(K, V) bool) (removed []V) {
	for key, e := range l.items {
		if value := e.Value.(*entry[K, V]).value; condition(key, value) {
			removed = append(removed, value)
			l.remove(key)
		}
	}
	return removed
}
