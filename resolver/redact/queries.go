// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"strings"
)

const (
	minQuery   = 16       // values of a query that are shorter sign nothing
	maxValues  = 512      // that are known, the last ones
	maxQueries = 64 << 10 // bytes of them, and of a query that is read
	maxSigned  = 2        // readings of a text in which they are looked for: as it is, and as a query has it
)

// AddQuery makes texts hide what the query of a URL has to which a host redirects: a storage
// service may repeat by what it was signed.
func (r *Redactor) AddQuery(u *url.URL) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pair := range strings.SplitSeq(u.RawQuery[:min(len(u.RawQuery), maxQueries)], "&") {
		value := pair
		if _, v, ok := strings.Cut(pair, "="); ok {
			value = v
		}
		if len(value) < minQuery {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil && len(plain) >= minQuery {
			value = plain // it is found however it is escaped
		}
		value = strings.Clone(value) // the rest of the URL may be much longer
		if r.queries.add(maxValues, maxQueries, value) {
			r.signed = nil
		}
	}
}
