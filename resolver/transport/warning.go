// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// maxWarnings bounds the warning data of an answer, in bytes: a registry must not send
// more (OCI distribution specification 1.1, Warnings).
const maxWarnings = 4096

// aWarning begins each of them.
const aWarning = `299 - "`

// readWarnings reads the warnings of an answer, fit for a log. The specification wants
// each to be 299 - "text", without a date; anything else is left out. RFC 7234, to which
// it refers, lets one header hold several.
func readWarnings(h http.Header, redactor *redact.Redactor) (texts []string) {
	left := maxWarnings
	for _, value := range h["Warning"] {
		if left -= len(value); left < 0 {
			return texts
		}
		if len(value) < len(aWarning) {
			continue
		}
		value = redactor.Hide(value) // a secret may have quotes and backslashes that nobody has escaped
		for {
			text, rest, ok := cutWarning(value)
			if !ok {
				break
			}
			if text = redactor.Clean(text); text != "" {
				texts = append(texts, text)
			}
			value = rest
		}
	}
	return texts
}

// cutWarning cuts the first warning off a header.
func cutWarning(value string) (text, rest string, ok bool) {
	value, ok = strings.CutPrefix(strings.TrimLeft(value, " \t,"), aWarning)
	if !ok {
		return "", "", false
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			return b.String(), value[i+1:], true
		case '\\':
			if i++; i == len(value) {
				return "", "", false
			}
		}
		b.WriteByte(value[i])
	}
	return "", "", false // the quote never ends
}
