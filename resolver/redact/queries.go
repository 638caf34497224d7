// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"slices"
	"strings"
)

const (
	minQuery   = 16       // values of a query that are shorter sign nothing
	maxValues  = 512      // that are known, the last ones
	maxQueries = 64 << 10 // bytes of them, and of a query that is read
)

// maxSigned is in how many readings of a text they are looked for, since many take long: as it is,
// and with the escapes of one kind undone.
var maxSigned = 1 + len(escapes)

// AddQuery makes texts hide what the query of a URL has to which a host redirects: a storage
// service may repeat by what it was signed. asked is the path that was asked for before, "" =
// none: what is in that is no secret.
func (r *Redactor) AddQuery(u *url.URL, asked string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pair := range strings.SplitSeq(u.RawQuery[:min(len(u.RawQuery), maxQueries)], "&") {
		name, value, named := strings.Cut(pair, "=")
		if !named {
			value = pair
		}
		if len(value) < minQuery {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil && len(plain) >= minQuery {
			value = plain // it is found however it is escaped
		}
		if isAlgorithm(value) || strings.Contains(asked, value) || named && !maySign(name) && isWords(value) {
			continue // errors would lose the names of images, and of types
		}
		value = strings.Clone(value) // the rest of the URL may be much longer
		if r.queries.add(maxValues, maxQueries, value) {
			r.signed = nil
		}
	}
}

// algorithms are those that storage services name beside what is signed by them.
var algorithms = []string{"AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "GOOG4-HMAC-SHA256", "GOOG4-RSA-SHA256"}

func isAlgorithm(value string) bool {
	return slices.ContainsFunc(algorithms, func(name string) bool { return strings.EqualFold(name, value) })
}

// signing are parts of names whose values are hidden even where they are words: a passphrase is.
var signing = []string{"sig", "token", "key", "secret", "pass", "pw", "cred", "auth", "mac", "hash", "policy", "ticket", "session"}

// maySign reports whether a value of that name may sign a URL, or let somebody in.
func maySign(name string) bool {
	plain, err := url.QueryUnescape(name)
	return err != nil || slices.ContainsFunc(signing, func(part string) bool { return strings.Contains(strings.ToLower(plain), part) })
}

// isWords reports whether a value is made of short words in lower case, as names of repositories
// and media types are. Nothing that is drawn or computed looks like that.
func isWords(value string) bool {
	for word := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune("-._/", c) }) {
		if len(word) >= minQuery || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}
