// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// recent are the secrets, of many, that were added last.
type recent struct {
	encoded *simplelru.LRU[string, []string] // folded, as they may be repeated, by secret; nil = none
	size    int                              // of them, in bytes
}

// add adds a secret, and drops those that were not added for longest where they are too many,
// or too long together; the last one stays. It reports whether anything has changed.
func (s *recent) add(maxSecrets, maxBytes int, secret string, encode func(string) []string) bool {
	if s.encoded == nil {
		s.encoded, _ = simplelru.NewLRU(maxSecrets, func(_ string, dropped []string) { s.size -= size(dropped) })
	}
	if _, known := s.encoded.Get(secret); known {
		return false
	}
	var encoded []string
	for _, text := range encode(secret) {
		if text = fold(text); len(text) >= minSecret && !slices.Contains(encoded, text) {
			encoded = append(encoded, text)
		}
	}
	s.encoded.Add(secret, encoded)
	for s.size += size(encoded); s.size > maxBytes && s.encoded.Len() > 1; {
		s.encoded.RemoveOldest()
	}
	return true
}

// values returns all of them, folded, in all encodings.
func (s *recent) values() []string {
	if s.encoded == nil {
		return nil
	}
	return slices.Concat(s.encoded.Values()...)
}

// size returns the bytes that values take.
func size(values []string) (bytes int) {
	for _, v := range values {
		bytes += len(v)
	}
	return bytes
}
