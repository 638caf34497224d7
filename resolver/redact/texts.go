// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"slices"
	"strings"
)

// Texts tells whether texts have secrets, such as those of one answer, so that something is refused. That must not depend on other
// texts: what may be compared is bounded for these together. Where it takes more, they have one.
type Texts struct {
	sent, signed []string
	left         int // bytes that may still be compared
}

// Texts is for texts that belong together, by the secrets that are known now.
func (r *Redactor) Texts() *Texts {
	known := r.gathered()
	return &Texts{known.sent, known.signed, maxRefused}
}

// LongTexts is Texts of an image, which refuses those that have a secret of some length: texts have a short one by chance, or
// where it is a word such as postgres. A header's name of a host or the like is none.
func (r *Redactor) LongTexts() *Texts {
	t, ordinary := r.Texts(), r.all().ordinary()
	t.sent = slices.DeleteFunc(slices.Clone(t.sent), func(v string) bool {
		return len(v) < minRepeated || len(v) < minQuery && isWords(strings.ToLower(v)) || slices.Contains(ordinary, v)
	})
	return t
}

// In reports whether a text, of some kilobytes at most, has a secret that was sent.
func (t *Texts) In(text string) bool { return t.places(text, len(text), nil) != nil }

// Knows is In, also for what a URL is signed by. It is true for more than 8 KiB.
func (t *Texts) Knows(text string) bool {
	return len(text) > maxKnown || t.places(text, len(text), t.signed) != nil
}

// Crosses reports whether something of which Knows tells begins before a place in a text, and ends
// behind it: cut there, neither part would be known. One that is whole on either side makes no
// difference. It is true for more than 8 KiB.
func (t *Texts) Crosses(text string, at int) bool {
	if len(text) > maxKnown {
		return true
	}
	ends := t.places(text, at, t.signed)
	return slices.ContainsFunc(ends[:min(at, len(ends))], func(end int) bool { return end > at })
}

// TellsHost reports whether scheme, user and host of a URL have nothing of a secret that was sent,
// or of what another URL is signed by: a registry may redirect to http://<password>, where a part
// of that is the host which nobody finds, and whose name is all that others know of it.
func (t *Texts) TellsHost(u *url.URL) bool {
	whole := u.String()
	if len(whole) > maxKnown {
		return false
	}
	host := len((&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, User: u.User, Host: u.Host}).String())
	ends := t.places(whole, host, t.signed)
	return !slices.ContainsFunc(ends[:min(len(ends), host)], func(end int) bool { return end > 0 })
}

// places returns where secrets begin in a text before that byte.
func (t *Texts) places(text string, before int, signed []string) []int {
	s := search{text: text, before: before, left: t.left}
	ends := s.places(t.sent, signed)
	t.left = s.left
	return ends
}
