// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redact keeps what must never be shown out of errors and logs:
// passwords, tokens, users and queries of URLs.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// MaxText bounds the text of an error, in bytes.
	MaxText = 1 << 10

	minSecret  = 4   // shorter ones would turn every text into stars
	maxPattern = 512 // bytes of a secret that is looked for in upper and lower case
	hidden     = "***"
)

// urls are what looks like URLs. What encloses one may be in its query, too.
var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>\\?]+(\?(\\.|[^\s"\\])*)?`)

// Redactor knows what must never show up in a text: passwords, tokens, and what
// they look like in headers and documents. Registries and proxies may repeat
// what they were sent. The zero value knows nothing; safe for concurrent use.
type Redactor struct {
	mu      sync.Mutex
	values  []string       // longest first
	pattern *regexp.Regexp // of all values, nil = not made yet
	queries queries
}

// Add makes texts hide the values from now on. Values of less than four bytes
// are left out.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		if len(v) >= minSecret && !slices.Contains(r.values, v) {
			r.values, r.pattern = append(r.values, v), nil
		}
	}
	if r.pattern == nil {
		slices.SortStableFunc(r.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
}

func (r *Redactor) knows(value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.values, value)
}

// AddCredentials adds a secret in the encodings in which it may be repeated, and
// in that of an Authorization header. The user's name alone is no secret.
func (r *Redactor) AddCredentials(username, secret string) {
	both := []byte(username + ":" + secret)
	r.Add(encodings(secret)...)
	// Unpadded, so that it is found with and without.
	r.Add(encodings(base64.RawStdEncoding.EncodeToString(both))...)
	r.Add(base64.RawURLEncoding.EncodeToString(both))
}

// encodings are what a text looks like where it is repeated: in a form, a path,
// a document, a page, or in quotes.
func encodings(text string) []string {
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)               //nolint:errchkjson // a string
	escaped, _ := json.Marshal(text) //nolint:errchkjson // a string
	return []string{
		text, url.QueryEscape(text), url.PathEscape(text), html.EscapeString(text),
		unquoted(string(escaped)), unquoted(strings.TrimSpace(plain.String())),
		unquoted(strconv.Quote(text)), unquoted(strconv.QuoteToASCII(text)),
		strings.ReplaceAll(unquoted(string(escaped)), "/", `\/`), // as PHP writes documents
	}
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// AddHeader adds the credentials of an Authorization header, in the encodings in which they
// may be repeated.
func (r *Redactor) AddHeader(value string) {
	if _, credentials, ok := strings.Cut(value, " "); ok && !r.knows(credentials) {
		r.Add(encodings(credentials)...)
	}
}

// addBasic adds the secret in an Authorization header of the scheme Basic (RFC 7617).
func (r *Redactor) addBasic(value string) {
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if username, secret, both := strings.Cut(string(decoded), ":"); err == nil && both {
		r.AddCredentials(username, secret)
	}
}

// AddHeaders adds the values of headers that the node is configured to send:
// each may be what lets it in.
func (r *Redactor) AddHeaders(headers http.Header) {
	for _, values := range headers {
		for _, value := range values {
			r.Add(encodings(value)...)
			r.AddHeader(value)
			r.addBasic(value)
		}
	}
}

// Clean makes a text fit for an error: one line, no secrets, URLs without user
// and query, not endless.
func (r *Redactor) Clean(text string) string {
	text = oneLine(r.hide(text))
	text = urls.ReplaceAllStringFunc(text, RawURL)
	return limit(r.hide(text), MaxText) // again: what is left out may have parted a secret
}

// hide looks for all secrets in the text as it is: one that is a part of another one, or
// overlaps it, uncovers nothing of that.
func (r *Redactor) hide(text string) string {
	exact, pattern := r.compiled()
	var found [][]int // from, to
	for _, v := range exact {
		for from := 0; ; {
			i := strings.Index(text[from:], v)
			if i < 0 {
				break
			}
			from += i + len(v)
			found = append(found, []int{from - len(v), from})
		}
	}
	if pattern != nil {
		found = append(found, pattern.FindAllStringIndex(text, -1)...)
	}
	slices.SortFunc(found, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	var b strings.Builder
	end := 0 // of what is hidden so far
	for _, at := range found {
		if at[0] >= end {
			b.WriteString(text[end:at[0]] + hidden)
		}
		end = max(end, at[1])
	}
	return b.String() + text[end:]
}

// In reports whether a text has a secret.
func (r *Redactor) In(text string) bool {
	exact, pattern := r.compiled()
	return slices.ContainsFunc(exact, func(v string) bool { return strings.Contains(text, v) }) ||
		pattern != nil && pattern.MatchString(text)
}

// compiled returns the values that no pattern can or should be made of, and a
// pattern of the others, nil for none: some texts change upper and lower case. What has
// signed a URL nobody changes.
func (r *Redactor) compiled() (exact []string, pattern *regexp.Regexp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	exact = slices.Clone(r.queries.all)
	var quoted []string
	for _, v := range r.values {
		if len(v) > maxPattern || !utf8.ValidString(v) {
			exact = append(exact, v)
		} else if r.pattern == nil {
			quoted = append(quoted, regexp.QuoteMeta(v))
		}
	}
	if len(quoted) > 0 {
		r.pattern = regexp.MustCompile("(?i)" + strings.Join(quoted, "|"))
	}
	return exact, r.pattern
}

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
