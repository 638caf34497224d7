// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// record is who served what in a pull, and who failed. Safe for concurrent
// use: layers are fetched side by side.
type record struct {
	secrets *secrets // what errors must not repeat

	mu       sync.Mutex
	contents map[digest.Digest]*content
}

// content is what is known about one digest.
type content struct {
	failures []Attempt // the last one of each host, in the order in which they happened
	failed   bool      // a failure is the last that happened
	pending  []Attempt // hosts that were being asked when the context ended
	sources  []*host   // hosts that served bytes, in the order in which they did so last
	checked  bool      // what was served has the digest
}

func (r *record) update(d digest.Digest, change func(*content)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.contents == nil {
		r.contents = map[digest.Digest]*content{}
	}
	c, ok := r.contents[d]
	if !ok {
		c = &content{}
		r.contents[d] = c
	}
	change(c)
}

// without takes the attempt of a host out of a list.
func without(attempts []Attempt, h *host) []Attempt {
	return slices.DeleteFunc(attempts, func(a Attempt) bool { return a.Host == h.Host })
}

func (r *record) failed(d digest.Digest, h *host, class failure.Class, err error, elapsed time.Duration) {
	r.update(d, func(c *content) {
		c.failures = append(without(c.failures, h), h.attempt(class, err, elapsed))
		c.failed = true
	})
}

func (r *record) interrupted(d digest.Digest, h *host, err error, elapsed time.Duration) {
	r.update(d, func(c *content) {
		c.pending = append(without(c.pending, h), h.attempt(failure.Unreachable, err, elapsed))
	})
}

// answered takes note of a success, whose body is still to be read.
func (r *record) answered(d digest.Digest, h *host) {
	r.update(d, func(c *content) {
		c.failures = without(c.failures, h)
		c.failed = false
	})
}

func (r *record) served(d digest.Digest, h *host) {
	r.update(d, func(c *content) {
		c.sources = append(slices.DeleteFunc(c.sources, func(other *host) bool { return other == h }), h)
	})
}

// untouched reports whether nothing was ever asked for.
func (r *record) untouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.contents) == 0
}

// verified takes note that content has its digest.
func (r *record) verified(d digest.Digest) {
	r.update(d, func(c *content) { c.checked = true })
}

// given reports whether content was served that has its digest.
func (r *record) given(d digest.Digest) (ok bool) {
	r.update(d, func(c *content) { ok = c.checked })
	return ok
}

// corrupt blames the hosts that served content for what is wrong with it.
func (r *record) corrupt(d digest.Digest, err error) {
	r.update(d, func(c *content) {
		for _, h := range c.sources {
			c.failures = append(without(c.failures, h), h.attempt(failure.Invalid, err, 0))
			c.failed = true
		}
	})
}

// sources returns the hosts that served bytes of a digest, in the order in
// which they did so last.
func (r *record) sources(d digest.Digest) (hosts []*host) {
	r.update(d, func(c *content) { hosts = slices.Clone(c.sources) })
	return hosts
}

// allSources returns the hosts that served any bytes.
func (r *record) allSources() map[*host]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[*host]bool{}
	for _, c := range r.contents {
		for _, h := range c.sources {
			all[h] = true
		}
	}
	return all
}

// failures returns why a digest could not be had, host by host.
func (r *record) failures(d digest.Digest) (attempts []Attempt) {
	r.update(d, func(c *content) { attempts = slices.Clone(c.failures) })
	return attempts
}

// collect gathers what pick finds in the contents, in the order of digests.
func (r *record) collect(pick func(digest.Digest, *content) []Attempt) (attempts []Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range slices.Sorted(maps.Keys(r.contents)) {
		attempts = append(attempts, pick(d, r.contents[d])...)
	}
	return attempts
}

// unfinished returns the failures of what could not be had; if there is
// nothing of the kind, the hosts that were being asked when the context ended.
func (r *record) unfinished() []Attempt {
	failed := r.collect(func(_ digest.Digest, c *content) []Attempt {
		if !c.failed {
			return nil
		}
		return c.failures
	})
	if len(failed) > 0 {
		return failed
	}
	return r.collect(func(_ digest.Digest, c *content) []Attempt {
		if len(c.pending) == 0 {
			return nil
		}
		return slices.Concat(c.failures, c.pending)
	})
}

// unchecked blames the hosts that served what was not known to have its
// digest.
func (r *record) unchecked(err error) []Attempt {
	return r.collect(func(_ digest.Digest, c *content) (attempts []Attempt) {
		if c.checked {
			return nil
		}
		for _, h := range c.sources {
			attempts = append(attempts, h.attempt(failure.Invalid, err, 0))
		}
		return attempts
	})
}
