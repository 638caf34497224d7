// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

const (
	// maxHosts bounds the values of the label host that the operator has not named
	// in a hosts.toml: image references, which tenants choose, can name any number
	// of them.
	maxHosts = 64
	// otherHosts is the value for all hosts beyond that.
	otherHosts = "other"
)

// hosts are the values of the label host. The set only grows. An LRU would bound
// nothing: the counters keep the series of an evicted host, and each eviction would let
// in one more. Safe for concurrent use.
type hosts struct {
	mu sync.Mutex
	// known has true for those that the operator has named, which are as many as there
	// are. Of the others, there are at most maxHosts.
	known     map[string]bool
	strangers int // in known
}

func newHosts() *hosts { return &hosts{known: map[string]bool{}} }

// configure makes a host that the operator has named a value of its own.
func (h *hosts) configure(host string) {
	host = canonical(host)
	h.mu.Lock()
	defer h.mu.Unlock()
	if configured, known := h.known[host]; known && !configured {
		h.strangers--
	}
	h.known[host] = true
}

// value returns the value for a host: its canonical name, or otherHosts once there are
// too many.
func (h *hosts) value(host string) string {
	host = canonical(host)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.known[host]; !known {
		if h.strangers >= maxHosts {
			return otherHosts
		}
		h.known[host] = false
		h.strangers++
	}
	return host
}

// canonical returns the canonical name of a host, as text: Prometheus' client panics at any other value.
func canonical(host string) string {
	return strings.ToValidUTF8(registryname.Canonical(host), "\uFFFD")
}

// all returns the values so far, but otherHosts.
func (h *hosts) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.known))
}
