// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/hex"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxReadings is in how many ways a text is read: as it is, and with escapes of all kinds undone
// twice. A registry repeats in a document what was in a path, or an error quotes it.
const maxReadings = 1 + 3 + 3*3

// reading is a text as it is, or unescaped: who repeats a secret writes it as a path, a form, a
// document, a page or a string of some language has it.
type reading struct {
	text     string
	from, to []int // where each byte is in the text as it is; nil = in the same place
}

// readings returns a text as it is, and with one kind of escapes after the other undone: the
// rest may look like escapes of another kind, and be as the secret has it.
func readings(text string) []reading {
	all, known := []reading{{text: text}}, map[string]bool{text: true}
	for i := 0; i < len(all) && len(all) < maxReadings; i++ {
		for _, kind := range escapes {
			if strings.IndexByte(all[i].text, kind.mark) < 0 || len(all) == maxReadings {
				continue
			}
			if next := all[i].unescaped(kind); !known[next.text] {
				all, known[next.text] = append(all, next), true
			}
		}
	}
	return all
}

// signedReadings is readings for what URLs are signed by, of which there may be many, and each
// reading takes its time: as the text is, with one kind of escapes undone, and with those of all
// kinds, twice.
func signedReadings(text string) []reading {
	first := reading{text: text}
	all, known := []reading{first}, map[string]bool{text: true}
	add := func(next reading) {
		if !known[next.text] {
			all, known[next.text] = append(all, next), true
		}
	}
	for _, kind := range escapes {
		if strings.IndexByte(text, kind.mark) >= 0 {
			add(first.unescaped(kind))
		}
	}
	if len(all) > 1 {
		once := first.unescaped(escapes...)
		add(once)
		add(once.unescaped(escapes...))
	}
	return all
}

// place returns where something of the reading is in the text as it is, from and to.
func (r reading) place(at [2]int) [2]int {
	if r.from == nil {
		return at
	}
	return [2]int{r.from[at[0]], r.to[at[1]-1]}
}

// begin returns where a byte of the reading is in the text as it is, or earlier.
func (r reading) begin(at int) int {
	if at >= len(r.from) {
		return at
	}
	return r.from[at]
}

// folded is the text of a reading to look for secrets in. rest says that the text was cut, which a space may have been that
// a string of a program has behind a backslash.
func (r reading) folded(rest bool) string {
	text := fold(r.text)
	if rest {
		text = strings.TrimRight(text, `\`)
	}
	return text
}

// unescaped returns the reading without one layer of escapes of some kinds.
func (r reading) unescaped(kinds ...escape) reading {
	text := make([]byte, 0, len(r.text))
	next := reading{from: make([]int, 0, len(r.text)), to: make([]int, 0, len(r.text))}
	for i := 0; i < len(r.text); {
		plain, length := r.text[i:i+1], 1
		for _, kind := range kinds {
			if r.text[i] == kind.mark {
				plain, length = kind.undo(r.text[i:])
			}
		}
		at := r.place([2]int{i, i + length})
		for range len(plain) {
			next.from, next.to = append(next.from, at[0]), append(next.to, at[1])
		}
		text, i = append(text, plain...), i+length
	}
	next.text = string(text)
	return next
}

// escape is a kind of escapes.
type escape struct {
	mark byte // with which each begins
	// undo returns what the escape stands for with which a text begins, and how long that is;
	// the mark where there is none.
	undo func(text string) (plain string, length int)
}

var escapes = []escape{{'%', undoPercent}, {'&', undoEntity}, {'\\', undoBackslash}}

// undoPercent is for paths and forms (RFC 3986, section 2.1).
func undoPercent(text string) (plain string, length int) {
	if plain, ok := hexByte(text, 1); ok {
		return plain, 3
	}
	return text[:1], 1
}

const (
	// maxEntity bounds an entity of HTML, in bytes.
	maxEntity = 12
	// maxEscape bounds an escape of any kind: two characters of UTF-16.
	maxEscape = 12
)

// undoEntity is for pages.
func undoEntity(text string) (plain string, length int) {
	end := strings.IndexByte(text[:min(len(text), maxEntity)], ';') + 1
	if end == 0 {
		return text[:1], 1
	}
	if plain := html.UnescapeString(text[:end]); plain != text[:end] {
		return plain, end
	}
	return text[:1], 1
}

// undoBackslash is for strings of JSON, Go, Python, Java and PHP.
func undoBackslash(text string) (plain string, length int) {
	if len(text) < 2 {
		return text, 1
	}
	switch c := text[1]; c {
	case 'x':
		if plain, ok := hexByte(text, 2); ok {
			return plain, 4
		}
	case 'u':
		if high, ok := hexRune(text, 4); ok {
			low, ok := hexRune(text[6:], 4)
			if pair := utf16.DecodeRune(high, low); ok && pair != utf8.RuneError {
				return string(pair), 12
			}
			return string(high), 6
		}
	case 'U':
		if r, ok := hexRune(text, 8); ok {
			return string(r), 10
		}
	default:
		if at := strings.IndexByte(`abfnrtv`, c); at >= 0 {
			return "\a\b\f\n\r\t\v"[at : at+1], 2
		}
		if c < utf8.RuneSelf && strings.IndexByte(letters, c|0x20) < 0 {
			return text[1:2], 2
		}
	}
	return text[:1], 1
}

const letters = "abcdefghijklmnopqrstuvwxyz"

// hexByte returns the byte that two hexadecimal digits of a text stand for.
func hexByte(text string, from int) (plain string, ok bool) {
	if len(text) < from+2 {
		return "", false
	}
	b, err := hex.DecodeString(text[from : from+2])
	return string(b), err == nil
}

// hexRune returns the character behind `\u` or `\U`.
func hexRune(text string, digits int) (r rune, ok bool) {
	if len(text) < 2+digits || text[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:2+digits], 16, 32)
	return rune(n), err == nil // what is no character becomes utf8.RuneError
}
