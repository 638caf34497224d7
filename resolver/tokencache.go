// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// maxTokens bounds the tokens that are kept, of all hosts together.
const maxTokens = 1024

// tokenKey is what requests must have in common to share tokens.
type tokenKey struct {
	set         *hostSet
	host        int // in the set
	repository  string
	credentials [sha256.Size]byte
}

// tokenCache keeps tokens from one session to the next, by their host,
// repository and credentials. Safe for concurrent use.
type tokenCache struct {
	key [sha256.Size]byte // for fingerprints, random

	mu  sync.Mutex
	all *lru[tokenKey, *tokens]
}

func newTokenCache() *tokenCache {
	c := &tokenCache{all: newLRU[tokenKey, *tokens](maxTokens)}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// fingerprint stands for credentials, without saying anything about them.
func (c *tokenCache) fingerprint(username, secret string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, c.key[:])
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(username)))
	for _, part := range [][]byte{size[:], []byte(username), []byte(secret)} {
		_, _ = h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}

// share returns the tokens of a key, made by create when there are none.
func (c *tokenCache) share(key tokenKey, create func() *tokens) *tokens {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.all.get(key); ok {
		return t
	}
	t := create()
	if !key.set.retired.Load() {
		c.all.put(key, t)
	}
	return t
}

// forget drops the tokens of a set that has been replaced.
func (c *tokenCache) forget(s *hostSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.removeIf(func(key tokenKey, _ *tokens) bool { return key.set == s })
}
