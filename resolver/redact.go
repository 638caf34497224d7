// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
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
)

var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>\\]+`)

// secrets knows what must never show up in a text: passwords, tokens, and what
// they look like in a header. Registries and proxies may repeat what they were
// sent. Safe for concurrent use.
type secrets struct {
	mu     sync.Mutex
	values []string // longest first
}

func (s *secrets) add(values ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if len(v) >= minSecret && !slices.Contains(s.values, v) {
			s.values = append(s.values, v)
		}
	}
	slices.SortStableFunc(s.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

func (s *secrets) addCredentials(username, secret string) {
	s.add(secret, url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(username+":"+secret)))
}

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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, "***")
	}
	return text
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
func readReason(resp *http.Response) string {
	if resp.Body == nil {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return ""
	}
	return reason(data)
}

func reason(data []byte) string {
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
		return limit(oneLine(strings.Join(parts, ", ")), maxReason)
	}
	if contentType := http.DetectContentType(data); !strings.HasPrefix(contentType, "text/plain") {
		return ""
	}
	return limit(oneLine(string(data)), maxReason)
}

// withReason appends a reason to a text.
func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
