// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pullwarden/pullwarden/internal/keyedhash"
)

// maxTokens bounds the tokens that are kept, of all hosts together.
const maxTokens = 1024

// Configuration is what tokens go with: the hosts of a registry name as they are
// configured. Tokens of one that is retired are not kept. Configurations are
// compared with ==.
type Configuration interface {
	Retired() bool
}

// Scope is what requests must have in common to share tokens, together with
// their credentials.
type Scope struct {
	Configuration Configuration
	Host          int // of the configuration
	Repository    string
}

type cacheKey struct {
	scope       Scope
	credentials [sha256.Size]byte
}

// Cache keeps tokens from one session to the next, by their scope and
// credentials. Safe for concurrent use.
type Cache struct {
	key [sha256.Size]byte // for fingerprints, random

	mu  sync.Mutex
	all *simplelru.LRU[cacheKey, *tokens]
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	all, _ := simplelru.NewLRU[cacheKey, *tokens](maxTokens, nil) // fails for sizes below 1 only
	c := &Cache{all: all}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// Forget drops the tokens of a configuration.
func (c *Cache) Forget(configuration Configuration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.all.Keys() {
		if key.scope.Configuration == configuration {
			c.all.Remove(key)
		}
	}
}

// fingerprint stands for credentials, without saying anything about them.
func (c *Cache) fingerprint(username, secret string) [sha256.Size]byte {
	return keyedhash.Sum(c.key[:], username, secret)
}

// share returns the tokens of a key, made by create when there are none.
func (c *Cache) share(key cacheKey, create func() *tokens) *tokens {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.all.Get(key); ok {
		return t
	}
	t := create()
	if !key.scope.Configuration.Retired() {
		c.all.Add(key, t)
	}
	return t
}
