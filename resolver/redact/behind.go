// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import "strings"

// maxCompared bounds the bytes of texts and secrets that are compared one by one: for all texts that a Redactor shows, and for
// each of which it tells whether it has a secret. A host chooses its tokens, what it signs URLs by, and the texts, and no context
// ends a comparison.
const maxCompared = 16 << 20

// placesBehindEscapes adds where values are of which an escape has taken the beginning: a host that
// writes "%2" before "correct%20horse" has that read as ",orrect horse", and shown as it is.
func placesBehindEscapes(all []reading, ends []int, rest bool, values []string, budget *int) []int {
	byFirst := map[byte][]string{}
	for _, v := range values {
		byFirst[v[0]] = append(byFirst[v[0]], v)
	}
	text := fold(all[0].text)
	for _, as := range all[1:] {
		folded := as.folded(rest)
		for i := range as.from {
			if last := i+1 == len(as.from) || as.from[i+1] >= as.to[i]; !last {
				continue
			}
			for begin := max(as.from[i]+1, as.to[i]-maxEscape); begin < as.to[i]; begin++ {
				taken := text[begin:as.to[i]]
				for _, v := range byFirst[taken[0]] {
					left, ok := strings.CutPrefix(v, taken)
					*budget -= len(taken)
					if ok && left != "" {
						*budget -= max(0, min(len(left), len(folded)-i-1))
						ends = as.addBehind(ends, len(text), folded, left, begin, i+1, rest)
					}
					if *budget < 0 {
						return everything(text)
					}
				}
			}
		}
	}
	return ends
}

// addBehind adds the place of a value that begins at a byte of the text as it is, if what is left of it
// follows in a reading, or begins at the end of that where there is more of the text.
func (r reading) addBehind(ends []int, size int, folded, left string, begin, next int, rest bool) []int {
	here := len(left)
	if follows := folded[min(next, len(folded)):]; !strings.HasPrefix(follows, left) {
		if !rest || !strings.HasPrefix(left, follows) {
			return ends
		}
		here = len(follows)
	}
	if ends == nil {
		ends = make([]int, size)
	}
	if here > 0 {
		ends[begin] = max(ends[begin], r.to[next+here-1])
	}
	return ends
}
