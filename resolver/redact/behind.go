// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "strings"

// behindEscapes looks for values of which an escape has taken the beginning: a host that
// writes "%2" before "correct%20horse" has that read as ",orrect horse", and shown as it is.
func (s *search) behindEscapes(all []reading, values []string) {
	if len(all) == 1 || s.before == 0 {
		return
	}
	byFirst := map[byte][]string{}
	for _, v := range values {
		byFirst[v[0]] = append(byFirst[v[0]], v)
	}
	text := fold(s.text)
	for _, as := range all[1:] {
		folded := as.folded(s.rest)
		for i := range as.from {
			if last := i+1 == len(as.from) || as.from[i+1] >= as.to[i]; !last {
				continue
			}
			for begin := max(as.from[i]+1, as.to[i]-maxEscape); begin < min(as.to[i], s.before); begin++ {
				taken := text[begin:as.to[i]]
				for _, v := range byFirst[taken[0]] {
					left, ok := strings.CutPrefix(v, taken)
					ok = ok && left != ""
					here := len(taken)
					if ok {
						here += max(0, min(len(left), len(folded)-i-1))
					}
					if !s.compare(here) {
						return
					}
					if ok {
						s.behind(as, folded, left, begin, i+1)
					}
				}
			}
		}
	}
}

// behind adds the place of a value that begins at a byte of the text as it is, if what is left of it
// follows in a reading, or begins at the end of that where there is more of the text.
func (s *search) behind(as reading, folded, left string, begin, next int) {
	here := len(left)
	if follows := folded[min(next, len(folded)):]; !strings.HasPrefix(follows, left) {
		if !s.rest || !strings.HasPrefix(left, follows) {
			return
		}
		here = len(follows)
	}
	if here > 0 {
		s.found([2]int{begin, as.to[next+here-1]})
	}
}
