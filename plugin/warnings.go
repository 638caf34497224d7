// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

const (
	// warningPeriod is how long the same warning of a host is not logged again.
	warningPeriod = 24 * time.Hour
	// maxWarnings bounds how many warnings of a host are logged in that time: a
	// registry can make up any number of them.
	maxWarnings = 16
)

// warnings logs what registries warn of (OCI distribution specification 1.1, Warnings),
// each text of a host once in a period. The zero value is ready, and safe for concurrent
// use.
type warnings struct {
	mu     sync.Mutex
	byHost map[string]*hostWarnings
}

// hostWarnings are those that were logged of a host.
type hostWarnings struct {
	since  time.Time
	logged map[string]bool
	full   bool // and the log says so
}

// log logs the texts of a host, given by its value of the label host: these are bounded.
func (w *warnings) log(host string, texts []string) {
	for _, text := range texts {
		fresh, full := w.take(host, text)
		if fresh {
			prefixlog.L().WithField("host", host).WithField("warning", text).Warn("the registry warns")
		}
		if full {
			prefixlog.L().WithField("host", host).Warnf("the registry has sent more than %d different warnings; the others are only counted for %v", maxWarnings, warningPeriod)
		}
	}
}

// take reports whether a text is to be logged, and whether it is the first for which
// there is no room.
func (w *warnings) take(host, text string) (fresh, full bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.byHost[host]
	if h == nil || now.Sub(h.since) >= warningPeriod {
		h = &hostWarnings{since: now, logged: map[string]bool{}}
		if w.byHost == nil {
			w.byHost = map[string]*hostWarnings{}
		}
		w.byHost[host] = h
	}
	switch {
	case h.logged[text]:
		return false, false
	case len(h.logged) < maxWarnings:
		h.logged[text] = true
		return true, false
	}
	full, h.full = !h.full, true
	return false, full
}
