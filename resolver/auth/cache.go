// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pullwarden/pullwarden/internal/keyedhash"
)

const (
	// maxTokens bounds the tokens that are kept, of all hosts together.
	maxTokens = 1024
	// maxBytes bounds what they take, with the challenges that they meet and the secrets for which they are, of which the
	// Redactor of their client has all spellings. Registries, token servers and tenants decide how long these are.
	maxBytes = 8 << 20
)

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

	mu      sync.Mutex
	all     *simplelru.LRU[cacheKey, *tokens]
	callers *simplelru.LRU[callerKey, *caller]
	bytes   int // of all of them
}

// kept is what the Cache knows of tokens. Its lock guards it.
type kept struct {
	here    bool
	answers int // of tokens, when that was accounted for
	size    int
	timer   *time.Timer // until they expire, nil = they never do
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	c := &Cache{}
	c.all, _ = simplelru.NewLRU(maxTokens, c.evicted)                    // fails for sizes below 1 only
	c.callers, _ = simplelru.NewLRU[callerKey, *caller](maxCallers, nil) // the same
	_, _ = rand.Read(c.key[:])                                           // never fails
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
	for _, key := range c.callers.Keys() {
		if key.configuration == configuration {
			c.callers.Remove(key)
		}
	}
}

// fingerprint stands for credentials, without saying anything about them.
func (c *Cache) fingerprint(username, secret string) [sha256.Size]byte {
	return keyedhash.Sum(c.key[:], username, secret)
}

// Scope stands for a repository and the credentials that a caller has for these hosts, and, by whom
// asker says, for those to which they redirect, without saying anything about them. It is false when
// they cannot be read: nobody knows whose they are then.
func (c *Cache) Scope(repository, asker string, credentials Credentials, hosts []string) (sum [sha256.Size]byte, known bool) {
	sum = keyedhash.Sum(c.key[:], asker, repository)
	for _, host := range hosts {
		username, secret, err := credentials(host)
		if err != nil {
			return [sha256.Size]byte{}, false
		}
		of := c.fingerprint(username, secret)
		sum = keyedhash.Sum(c.key[:], string(sum[:]), host+string(of[:]))
	}
	return sum, true
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
		t.kept.here, t.cache = true, c
		c.all.Add(key, t)
	}
	return t
}

// callerOf returns what is known of a caller.
func (c *Cache) callerOf(key callerKey) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.callers.Get(key); ok {
		return known
	}
	known := &caller{}
	if !key.configuration.Retired() {
		c.callers.Add(key, known)
	}
	return known
}

// expire drops a token that has expired.
func (c *Cache) expire(t *tokens) {
	if !t.expire() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measure(t)
}

// measure takes note of how much is kept. The caller holds the lock.
func (c *Cache) measure(t *tokens) (answers int) {
	size, answers := t.size()
	if t.kept.here {
		c.bytes += size - t.kept.size
		t.kept.size = size
	}
	return answers
}

// evicted is called with the lock held, for whatever is taken out.
func (c *Cache) evicted(_ cacheKey, t *tokens) {
	c.bytes -= t.kept.size
	if t.kept.timer != nil {
		t.kept.timer.Stop()
	}
	t.kept = kept{}
	t.stopRenewal()
}

// account takes note of how long tokens and challenges are that may be new, and drops those that
// were not used for longest where that is too much. A token is dropped when it expires, too.
func (c *Cache) account(t *tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := c.measure(t)
	defer c.bound()
	if !t.kept.here || t.kept.answers == answers {
		return
	}
	t.kept.answers = answers
	if t.kept.timer != nil {
		t.kept.timer.Stop()
		t.kept.timer = nil
	}
	if _, expires := t.meter.Load().last(); !expires.IsZero() {
		t.kept.timer = time.AfterFunc(time.Until(expires), func() { c.expire(t) })
	}
}

// bound drops what is too much. The caller holds the lock.
func (c *Cache) bound() {
	for c.bytes > maxBytes {
		if _, _, ok := c.all.RemoveOldest(); !ok {
			return
		}
	}
}
