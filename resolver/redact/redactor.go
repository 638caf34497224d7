// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact keeps what must never be shown out of errors and logs:
// passwords, tokens, users and queries of URLs.
package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// MaxText bounds the text of an error, in bytes.
	MaxText = 1 << 10

	// Untold stands for a host with a part of a secret.
	Untold = hidden

	minSecret   = 4       // shorter ones would turn every text into stars
	minRepeated = 8       // shorter ones are in digests by chance, of this length in one of 75 million
	maxCleaned  = 4 << 10 // bytes of a text that are looked at: hosts choose texts and secrets, and no context ends the search
	maxKnown    = 8 << 10 // bytes of a URL or a header: nothing is told of a longer one, which may end in half an escape
	hidden      = "***"

	padding    = "=" // of Base64: secrets are known without
	maxPadding = 2   // of them

	maxTokens     = 64      // that are known, the last ones
	maxTokenBytes = 1 << 20 // of them
)

// Redactor knows what must never show up in a text: passwords, tokens, and what
// they look like in headers. Registries and proxies may repeat what they were sent,
// escaped in some way. The zero value knows nothing; safe for concurrent use.
type Redactor struct {
	session *Redactor // of whose hosts it is one's: see ForHost; nil = it is nobody's

	mu      sync.Mutex
	leads   []*Redactor // of the hosts that lead to that one; of a session, all that have one
	own     []string    // folded, of the caller and the node: what was added is known for good
	size    int         // of own, in bytes
	usual   []string    // of own: ordinary values of headers, of which any text may be
	tokens  recent      // of token servers, who decide how many they issue
	queries recent      // of URLs, with their passwords, to which hosts redirect
	last    *gathered   // what texts were searched for last; nil = nothing yet

	changes  atomic.Uint64 // of own, tokens and queries, counted with them
	compared atomic.Int64  // bytes, for all texts that were shown: see maxCompared
}

// ForHost returns the Redactor of one of the hosts of a session, r being the session's. Its texts have no
// secret that the session knows, of whichever host. What it refuses, or is asked about, are the secrets that
// the host may have been sent: the caller's and the node's, which all hosts share, and of the tokens and URLs
// those alone that are added here, or are of the session's hosts that lead to it. Else a host had another's
// answers refused, by tokens and URLs that are parts of what that says. The session knows what each of its hosts
// does: none has another's secrets forgotten, by tokens and URLs without end.
func (r *Redactor) ForHost(leads ...*Redactor) *Redactor {
	of := &Redactor{session: r, leads: leads}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = append(r.leads, of)
	return of
}

// all is the Redactor that knows all secrets.
func (r *Redactor) all() *Redactor {
	if r.session != nil {
		return r.session
	}
	return r
}

// Add makes texts hide the values from now on. Values of less than four bytes
// are left out.
func (r *Redactor) Add(values ...string) {
	if r.session != nil {
		r.session.Add(values...)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		r.add(v)
		r.usual = slices.DeleteFunc(r.usual, func(other string) bool { return other == fold(v) })
	}
}

// addOrdinary is Add for what LongTexts does not look for, unless Add adds it as well.
func (r *Redactor) addOrdinary(values ...string) {
	if r.session != nil {
		r.session.addOrdinary(values...)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		if r.add(v) {
			r.usual = append(r.usual, fold(v))
		}
	}
}

// add adds a value, and reports whether it was not known.
func (r *Redactor) add(value string) bool {
	value = fold(value)
	if len(value) < minSecret || slices.Contains(r.own, value) {
		return false
	}
	r.own = append(r.own, value)
	r.size += len(value)
	r.changes.Add(1)
	return true
}

// AddCredentials adds a secret, also as an Authorization header has it. The user's name alone is
// no secret.
func (r *Redactor) AddCredentials(username, secret string) {
	both := []byte(username + ":" + secret)
	r.Add(spellings(secret)...)
	// Unpadded, so that it is found with and without.
	r.Add(base64.RawStdEncoding.EncodeToString(both), base64.RawURLEncoding.EncodeToString(both))
}

// AddToken adds the credentials of an Authorization header that a token server has issued. Of
// many the last ones are known.
func (r *Redactor) AddToken(header string) {
	_, credentials, ok := strings.Cut(header, " ")
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens.add(maxTokens, maxTokenBytes, credentials) {
		r.changes.Add(1)
	}
}

// KeepTokens has texts hide no more tokens than that many, which were added last, and keeps no others.
func (r *Redactor) KeepTokens(last int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens.keep(last) {
		r.last = nil
		r.changes.Add(1)
	}
}

// Bytes is how many bytes the secrets of the caller and the node, in all their spellings, and the tokens take
// that texts hide.
func (r *Redactor) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size + r.tokens.size
}

// Clean makes a text fit for an error: one line, no secrets, URLs without user
// and query, not endless. Of a longer one the reason is kept that the system gives at its end.
func (r *Redactor) Clean(text string) string {
	why := r.systemReason(text)
	rest := len(text) > maxCleaned
	if rest {
		text = cut(text, maxCleaned)
	}
	text = r.whole(text, rest)
	if !rest && len(text) <= MaxText {
		return text
	}
	short := limit(text, MaxText-len(why))
	if short == text {
		short += "…"
	}
	return short + why
}

// cut returns a text up to a space: half a URL, or half a character, would not be known.
func cut(text string, bytes int) string {
	return text[:max(0, strings.LastIndexAny(text[:bytes], " \t\r\n"))]
}

// whole is a text that is clean, and not shortened: half a secret, or half a URL, would not be
// known any more. rest says that there is more of the text: what begins at its end may be a
// secret.
func (r *Redactor) whole(text string, rest bool) string {
	text = oneLine(r.hide(text, rest))
	text = cutURLs(text)
	return r.hide(text, rest) // again: what is left out may have parted a secret
}

// Hide is a text, of some kilobytes at most, without secrets, and as it is otherwise. Who cuts
// something out of a text hides before that: the rest of a secret would not be known.
func (r *Redactor) Hide(text string) string { return r.hide(text, false) }

// hide looks for all secrets in the text as it is and unescaped, in upper and lower case: one
// that is a part of another one, or overlaps it, uncovers nothing of that.
func (r *Redactor) hide(text string, rest bool) string { return r.hideBefore(text, len(text), rest) }

// hideBefore is hide for the beginning of a text, of that many bytes. A secret may go beyond it.
func (r *Redactor) hideBefore(text string, bytes int, rest bool) string {
	r = r.all()
	known := r.gathered()
	budget := maxCompared - int(r.compared.Load())
	s := search{text: text, before: bytes, rest: rest, left: budget}
	ends := s.places(known.sent, known.signed)
	r.compared.Add(int64(budget - s.left))
	var b strings.Builder
	hiddenTo := 0 // of what is hidden so far, its end
	for from, to := range ends[:min(bytes, len(ends))] {
		if to == 0 {
			continue
		}
		if from >= hiddenTo {
			b.WriteString(text[hiddenTo:from] + hidden)
		}
		hiddenTo = max(hiddenTo, to)
	}
	return b.String() + text[min(hiddenTo, bytes):bytes]
}

// TellsHost is that of [Texts] for one URL that is told, by all secrets that texts hide.
func (r *Redactor) TellsHost(u *url.URL) bool { return r.all().Texts().TellsHost(u) }

// Repeats reports whether a text has, as it is, a secret that was sent, and is too long to be
// there by chance.
func (r *Redactor) Repeats(text string) bool {
	folded := fold(text)
	return slices.ContainsFunc(r.gathered().sent, func(v string) bool { return len(v) >= minRepeated && strings.Contains(folded, v) })
}

// known is what was added for good.
func (r *Redactor) known() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own
}

// ordinary is what addOrdinary has added alone.
func (r *Redactor) ordinary() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.usual)
}

// LastingTexts is Texts by what was added for good alone, the secrets of the caller and the node: no host has
// chosen those.
func (r *Redactor) LastingTexts() *Texts { return &Texts{sent: r.all().known(), left: maxRefused} }

// Wrap gives cause a text that is clean.
func (r *Redactor) Wrap(text string, cause error) error {
	return &wrapped{text: r.Clean(text), cause: cause}
}

// wrapped is an error whose text has been cleaned; the cause stays reachable
// for errors.Is and errors.As.
type wrapped struct {
	text  string
	cause error
}

func (e *wrapped) Error() string { return e.text }
func (e *wrapped) Unwrap() error { return e.cause }
