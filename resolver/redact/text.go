// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// oneLine replaces line breaks and what cannot be printed by single spaces.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// limit cuts a text behind a whole character, with a mark where it was cut.
func limit(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes] + "…"
}

// errnos is how many numbers of errors are looked at: Linux has 133.
const errnos = 140

// systemReason is the error of a system call that a text ends with, such as ": no space left on device", behind a
// name of any length; "" = none.
func (r *Redactor) systemReason(text string) string {
	const colon = ": "
	at := strings.LastIndex(text, colon)
	if at < 0 {
		return ""
	}
	for n := range errnos {
		if reason := text[at:]; reason == colon+syscall.Errno(n).Error() && r.hide(reason, false) == reason {
			return reason
		}
	}
	return ""
}

// Quote quotes what a registry says, unless it is too long.
func Quote(text string) string {
	if len(text) > maxReason {
		return fmt.Sprintf("of %d bytes", len(text))
	}
	return strconv.Quote(text)
}
