// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

const (
	minPart  = 8  // bytes of a part of a header that is hidden by itself
	maxParts = 32 // of a header
)

// AddHeaders adds the values of headers that the node is configured to send: each may be what
// lets it in, and so may be each part of it, but for words.
func (r *Redactor) AddHeaders(headers http.Header) {
	for name, values := range headers {
		for _, value := range values {
			r.addValueOf(name, value)
			if _, credentials, ok := strings.Cut(value, " "); ok {
				r.addValueOf(name, credentials)
			}
			r.addBasic(value)
			if !slices.Contains(shownHeaders, strings.ToLower(name)) {
				r.addParts(value)
			}
		}
	}
}

// addValueOf adds a value of a header. A name of a host, a region or the like is hidden, since a host may be let in by
// anything, but refuses no image, which may have it as well: see LongTexts.
func (r *Redactor) addValueOf(header, value string) {
	if trimmed := strings.TrimSpace(value); trimmed != "" && isOrdinary(trimmed) && !letsIn(header) {
		r.addOrdinary(spellings(value)...)
		return
	}
	r.Add(spellings(value)...)
}

// letsIn reports whether a header is one of credentials, by its name: there words are a passphrase.
func letsIn(header string) bool {
	return maySign(header) || strings.Contains(strings.ToLower(header), "cookie")
}

// addParts adds what a header names: cookies, and parameters of credentials.
func (r *Redactor) addParts(value string) {
	parts := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t;,=\"'", c) })
	for _, part := range parts[:min(len(parts), maxParts)] {
		if len(part) >= minPart && !isOrdinary(part) {
			r.Add(spellings(part)...)
		}
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
