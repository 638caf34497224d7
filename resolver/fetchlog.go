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
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// fetchLog is who served what in a pull, and who failed. Safe for concurrent use: layers are fetched side by side.
type fetchLog struct {
	redactor *redact.Redactor
	chosen   *redact.Redactor // of what the documents choose: nil = redactor. See documents
	progress *progress
	openness *openness  // of the session; nil = nobody wants to know
	left     *leftHosts // of the pull
	heard    *hearing   // of the pull

	mu       sync.Mutex
	contents map[digest.Digest]*content
	named    int       // hosts of urls
	notAsked hostNames // of urls that are not followed
}

// content is all that is known about one digest.
type content struct {
	failures []Attempt // the last one of each host, in the order in which they happened
	refusals []Attempt // the last one of each host, of those that count still
	failed   bool      // a failure is the last that happened: no other host was asked after it
	pending  []Attempt // hosts that were being asked when the context ended
	sources  []*host   // hosts that served bytes, in the order in which they did so last
	verified bool      // the content that was served has the digest

	// elsewhere are the hosts of its urls, one of which served bytes.
	elsewhere []string
	urlFailed []Attempt // how its urls failed, where that is the last that happened
}

func (l *fetchLog) update(d digest.Digest, change func(*content)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contents == nil {
		l.contents = map[digest.Digest]*content{}
	}
	c, ok := l.contents[d]
	if !ok {
		c = &content{}
		l.contents[d] = c
	}
	change(c)
}

// adopt takes over what another log knows of a digest, of which nobody adds anything to that
// log any more.
func (l *fetchLog) adopt(d digest.Digest, from *fetchLog) {
	l.adoptRefusals(d, from)
	var own content
	from.update(d, func(c *content) { own = *c })
	l.update(d, func(c *content) {
		c.failures = append(c.failures, own.failures...)
		c.pending, c.sources = append(c.pending, own.pending...), append(c.sources, own.sources...)
		c.failed, c.verified, c.elsewhere = own.failed, c.verified || own.verified, own.elsewhere
		c.urlFailed = own.urlFailed
	})
}

// adoptRefusals takes over who has refused a digest in another log: whatever else becomes of it, a refusal counts,
// until that host says yes.
func (l *fetchLog) adoptRefusals(d digest.Digest, from *fetchLog) {
	var own []Attempt
	from.update(d, func(c *content) { own = c.refusals })
	if len(own) > 0 {
		l.update(d, func(c *content) { c.refusals = append(c.refusals, own...) })
	}
}

// without takes the attempts of a host out of a list, but for those by another way to it.
func without(attempts []Attempt, h *host) []Attempt {
	return slices.DeleteFunc(attempts, func(a Attempt) bool { return a.by == h })
}

// withoutAll takes the attempts of a host out of a list, by all ways to it.
func withoutAll(attempts []Attempt, h *host) []Attempt {
	return slices.DeleteFunc(attempts, func(a Attempt) bool { return a.Host == h.By() })
}

func (l *fetchLog) failed(d digest.Digest, h *host, class failure.Class, err error, elapsed time.Duration) {
	l.heard.answered(h, class)
	l.passedOver(d, h, class, err, elapsed)
}

// passedOver is failed where the host was not asked: what it has said to others, or before, is no answer to this pull.
func (l *fetchLog) passedOver(d digest.Digest, h *host, class failure.Class, err error, elapsed time.Duration) {
	l.update(d, func(c *content) {
		c.failures = append(without(c.failures, h), h.attempt(class, err, elapsed))
		c.failed = true
	})
}

// answer takes note of an answer that is a failure. own tells that it is the host's.
func (l *fetchLog) answer(d digest.Digest, h *host, class failure.Class, err error, elapsed time.Duration, own bool) {
	l.heard.answered(h, class)
	a := h.answer(class, err, elapsed, own)
	l.update(d, func(c *content) {
		c.failures, c.failed = append(without(c.failures, h), a), true
		if a.Refused {
			c.refusals = append(withoutAll(c.refusals, h), a)
		}
	})
}

func (l *fetchLog) interrupted(d digest.Digest, h *host, err error, elapsed time.Duration) {
	l.update(d, func(c *content) {
		c.pending = append(without(c.pending, h), h.attempt(failure.Unreachable, err, elapsed))
		c.failed = false
	})
}

// answered takes note of a success, whose body is still to be read. It makes up for the failures and
// refusals of all ways to the host, and for those of no other one.
func (l *fetchLog) answered(d digest.Digest, h *host) {
	l.heard.answered(h, failure.None)
	l.update(d, func(c *content) {
		c.failures, c.refusals, c.pending = withoutAll(c.failures, h), withoutAll(c.refusals, h), withoutAll(c.pending, h)
		c.failed, c.urlFailed = false, nil
	})
}

func (l *fetchLog) served(d digest.Digest, h *host) {
	l.update(d, func(c *content) {
		c.sources = append(slices.DeleteFunc(c.sources, func(other *host) bool { return other == h }), h)
	})
}

// maxElsewhere bounds them: no label has room for so many, which then says that there are more. Beyond
// maxElsewhereOfPull, of all layers, they have no names.
const maxElsewhere, maxElsewhereOfPull = 256, 16 << 10

// servedElsewhere takes note that one of these hosts, which the urls of the
// content name or lead to, served bytes.
func (l *fetchLog) servedElsewhere(d digest.Digest, hosts []string) {
	l.update(d, func(c *content) {
		for _, h := range hosts {
			if l.named == maxElsewhereOfPull {
				h = redact.Untold
			}
			if !slices.Contains(c.elsewhere, h) && len(c.elsewhere) < maxElsewhere {
				c.elsewhere = append(slices.Clip(c.elsewhere), h)
				l.named = min(l.named+1, maxElsewhereOfPull)
			}
		}
	})
}

// elsewhere returns the hosts of urls that may have served bytes of a digest.
func (l *fetchLog) elsewhere(d digest.Digest) (hosts []string) {
	l.update(d, func(c *content) { hosts = c.elsewhere })
	return hosts
}

// allElsewhere returns the hosts of urls that may have served any bytes, in
// alphabetical order.
func (l *fetchLog) allElsewhere() (hosts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.contents {
		hosts = append(hosts, c.elsewhere...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// verified takes note that content has its digest.
func (l *fetchLog) verified(d digest.Digest) {
	l.update(d, func(c *content) { c.verified = true })
	l.openness.deliver(d)
}

// delivered reports whether content was served that has its digest.
func (l *fetchLog) delivered(d digest.Digest) (ok bool) {
	l.update(d, func(c *content) { ok = c.verified })
	return ok
}

// corrupt blames the hosts that served content for what is wrong with it.
func (l *fetchLog) corrupt(d digest.Digest, err error) {
	l.update(d, func(c *content) {
		for _, h := range c.sources {
			c.failures = append(without(c.failures, h), h.attempt(failure.Invalid, err, 0))
			c.failed = true
		}
	})
}

// forgetSources forgets who served bytes of a digest, because they were thrown
// away, and returns them in the order in which they did so last.
func (l *fetchLog) forgetSources(d digest.Digest) (hosts []*host) {
	l.update(d, func(c *content) { hosts, c.sources, c.elsewhere = c.sources, nil, nil })
	return hosts
}

// sources returns the hosts that served bytes of a digest, in the order in
// which they did so last.
func (l *fetchLog) sources(d digest.Digest) (hosts []*host) {
	l.update(d, func(c *content) { hosts = slices.Clone(c.sources) })
	return hosts
}

// allSources returns the hosts that served any bytes.
func (l *fetchLog) allSources() map[*host]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[*host]bool{}
	for _, c := range l.contents {
		for _, h := range c.sources {
			all[h] = true
		}
	}
	return all
}

// failures returns why a digest could not be had, host by host.
func (l *fetchLog) failures(d digest.Digest) (attempts []Attempt) {
	l.update(d, func(c *content) { attempts = slices.Concat(c.failures, c.urlFailed) })
	return attempts
}

// collect gathers what pick finds in the contents, in the order of digests.
func (l *fetchLog) collect(pick func(digest.Digest, *content) []Attempt) (attempts []Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range slices.Sorted(maps.Keys(l.contents)) {
		attempts = append(attempts, pick(d, l.contents[d])...)
	}
	return attempts
}

// withRefusals returns the attempts, and before them the refusals of any content that
// they have not: whatever else has failed a pull, a refusal counts.
func (l *fetchLog) withRefusals(attempts []Attempt) []Attempt {
	has := map[string]bool{} // hosts that refuse
	for _, a := range attempts {
		has[a.Host] = has[a.Host] || a.Refused
	}
	refusals := l.collect(func(_ digest.Digest, c *content) (list []Attempt) {
		for _, a := range c.refusals {
			if !has[a.Host] {
				has[a.Host] = true
				list = append(list, a)
			}
		}
		return list
	})
	return append(refusals, attempts...)
}

// unfinished returns the failures of content that could not be had; if there is
// nothing of the kind, the hosts that were being asked when the context ended.
func (l *fetchLog) unfinished() []Attempt {
	failed := l.collect(func(_ digest.Digest, c *content) []Attempt {
		if !c.failed {
			return c.urlFailed
		}
		return slices.Concat(c.failures, c.urlFailed)
	})
	if len(failed) > 0 {
		return failed
	}
	return l.collect(func(_ digest.Digest, c *content) []Attempt {
		if len(c.pending) == 0 {
			return nil
		}
		return slices.Concat(c.failures, c.pending)
	})
}

// unverified blames the hosts that served content which was not known to have
// its digest.
func (l *fetchLog) unverified(err error) []Attempt {
	return l.collect(func(_ digest.Digest, c *content) (attempts []Attempt) {
		if c.verified {
			return nil
		}
		for _, h := range c.sources {
			attempts = append(attempts, h.attempt(failure.Invalid, err, 0))
		}
		return attempts
	})
}
