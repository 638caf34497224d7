// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "strings"

// What may be compared one by one, of texts and secrets, in bytes: a host chooses its tokens, what it signs URLs by, and the texts,
// and no context ends a comparison.
const (
	maxCompared = 16 << 20 // for all texts that a Redactor shows
	maxRefused  = 4 << 20  // for Texts, together
)

// search looks for secrets in a text.
type search struct {
	text   string
	before int  // bytes of the text in which those begin that are looked for
	rest   bool // there is more of the text: what begins at its end may be a secret
	left   int  // bytes that may still be compared; where it takes more, all of the text may be secret
	// ends are the furthest ends of the secrets that begin at each byte, 0 = none does; nil = there are none. Whoever chose the
	// secrets may have had them overlap everywhere: so that takes no more memory than the text is long.
	ends []int
}

// places returns where secrets are in the text: see ends. One that begins at or behind "before" may be missing.
func (s *search) places(sent, signed []string) []int {
	if len(sent) > 0 {
		s.in(readings(s.text), sent)
	}
	if len(signed) > 0 {
		s.in(signedReadings(s.text), signed)
	}
	return s.ends
}

// in looks for values in the readings of the text, of which the first is the text itself.
func (s *search) in(all []reading, values []string) {
	for _, as := range all {
		folded := as.folded(s.rest)
		for _, v := range values {
			if from, may := mayBegin(folded, v, s.rest); may && as.begin(from) < s.before {
				left := len(folded) - from
				if !s.compare(left + min(left, len(v))) {
					return
				}
				for at := range occurrences(folded, v, s.rest) {
					for range maxPadding {
						if strings.HasPrefix(folded[at[1]:], padding) {
							at[1]++
						}
					}
					s.found(as.place(at))
				}
			}
		}
	}
	s.behindEscapes(all, values)
}

// compare takes bytes of what may be compared. False = there are not as many.
func (s *search) compare(bytes int) bool {
	if s.left -= bytes; s.left >= 0 {
		return true
	}
	if s.ends = make([]int, len(s.text)); len(s.ends) > 0 {
		s.ends[0] = len(s.text)
	}
	return false
}

// found adds the place of a secret.
func (s *search) found(at [2]int) {
	if s.ends == nil {
		s.ends = make([]int, len(s.text))
	}
	s.ends[at[0]] = max(s.ends[at[0]], at[1])
}
