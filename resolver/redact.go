// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	maxReason = 256      // bytes of a registry's own words that an error repeats
	maxText   = 1 << 10  // bytes of an error's text
	maxAnswer = 64 << 10 // bytes read of the body of an answer that is an error
	minSecret = 4        // shorter ones would turn every text into stars

	maxPattern = 512 // bytes of a secret that is looked for in upper and lower case
	hidden     = "***"
)

var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>\\]+`)

// secrets knows what must never show up in a text: passwords, tokens, and what
// they look like in headers and documents. Registries and proxies may repeat
// what they were sent. Safe for concurrent use.
type secrets struct {
	mu      sync.Mutex
	values  []string       // longest first
	pattern *regexp.Regexp // of all values, nil = not made yet
}

func (s *secrets) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if len(v) >= minSecret && !slices.Contains(s.values, v) {
			s.values, s.pattern = append(s.values, v), nil
		}
	}
	if s.pattern == nil {
		slices.SortStableFunc(s.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
}

func (s *secrets) addCredentials(username, secret string) {
	both := []byte(username + ":" + secret)
	s.add(encodings(secret)...)
	// Unpadded, so that it is found with and without.
	s.add(base64.RawStdEncoding.EncodeToString(both), base64.RawURLEncoding.EncodeToString(both))
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
	}
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// addHeader adds the credentials of an Authorization header.
func (s *secrets) addHeader(value string) {
	if _, credentials, ok := strings.Cut(value, " "); ok {
		s.add(credentials)
	}
}

// clean makes a text fit for an error: one line, no secrets, URLs without user
// and query, not endless.
func (s *secrets) clean(text string) string {
	text = oneLine(s.hide(text))
	text = urls.ReplaceAllStringFunc(text, redactURL)
	return limit(s.hide(text), maxText) // again: what is left out may have parted a secret
}

func (s *secrets) hide(text string) string {
	exact, pattern := s.compiled()
	for _, v := range exact {
		text = strings.ReplaceAll(text, v, hidden)
	}
	if pattern != nil {
		text = pattern.ReplaceAllLiteralString(text, hidden)
	}
	return text
}

// compiled returns the secrets that no pattern can or should be made of, and a
// pattern of the others, nil for none: some texts change upper and lower case.
func (s *secrets) compiled() (exact []string, pattern *regexp.Regexp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var quoted []string
	for _, v := range s.values {
		if len(v) > maxPattern || !utf8.ValidString(v) {
			exact = append(exact, v)
		} else if s.pattern == nil {
			quoted = append(quoted, regexp.QuoteMeta(v))
		}
	}
	if len(quoted) > 0 {
		s.pattern = regexp.MustCompile("(?i)" + strings.Join(quoted, "|"))
	}
	return exact, s.pattern
}

// wrap gives cause a text that is clean.
func (s *secrets) wrap(text string, cause error) error {
	return &cleanError{text: s.clean(text), cause: cause}
}

// redactURL returns scheme, host and path of a URL: user, query and fragment
// may hold credentials.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		scheme, rest, _ := strings.Cut(raw, "://")
		rest, _, _ = strings.Cut(rest, "?")
		rest, _, _ = strings.Cut(rest, "#")
		return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	return displayURL(u)
}

func displayURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

func limit(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes] + "…"
}

// readReason reads, within bounds, what an answer says about itself: the
// errors of the distribution specification, or a short text. Pages are not
// repeated.
func (s *secrets) readReason(resp *http.Response) string {
	if resp.Body == nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return ""
	}
	return s.reason(data)
}

// reason hides before it shortens: half a secret would not be found any more.
func (s *secrets) reason(data []byte) string {
	var document struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(data, &document) == nil && len(document.Errors) > 0 {
		var parts []string
		for _, e := range document.Errors {
			parts = append(parts, strings.Trim(e.Code+": "+e.Message, ": "))
		}
		return limit(oneLine(s.hide(strings.Join(parts, ", "))), maxReason)
	}
	if contentType := http.DetectContentType(data); !strings.HasPrefix(contentType, "text/plain") {
		return ""
	}
	return limit(oneLine(s.hide(string(data))), maxReason)
}

// quote quotes what a registry says, unless it is too long.
func quote(text string) string {
	if len(text) > maxReason {
		return fmt.Sprintf("of %d bytes", len(text))
	}
	return strconv.Quote(text)
}

// withReason appends a reason to a text.
func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
