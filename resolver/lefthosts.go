// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import "sync"

// leftHosts are hosts that are not asked any more, and why. The zero value is none, and so is nil.
// Safe for concurrent use.
type leftHosts struct {
	mu  sync.Mutex
	all map[*host]error
}

// add reports whether the host was not among them yet.
func (l *leftHosts) add(h *host, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[h] != nil {
		return false
	}
	if l.all == nil {
		l.all = map[*host]error{}
	}
	l.all[h] = why
	return true
}

// why returns why a host is not asked, nil if it is.
func (l *leftHosts) why(h *host) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[h]
}

func (l *leftHosts) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.all)
}
