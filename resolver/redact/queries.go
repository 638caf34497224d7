// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"strings"
)

const (
	minQuery   = 16       // values of a query that are shorter sign nothing
	maxQueries = 64 << 10 // bytes of such values that are known, the last ones, and of a query that is read
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
		value = strings.Clone(value) // the rest of the URL may be much longer
		if r.queries.add(maxQueries/minQuery, maxQueries, value, escapings) {
			r.all = nil
		}
	}
}

// escapings are a value of a query as it is, and in the other ways to write it: whoever made
// the URL may escape in another one.
func escapings(raw string) []string {
	value, err := url.QueryUnescape(raw)
	if err != nil || len(value) < minQuery {
		return []string{raw}
	}
	return []string{raw, value, url.QueryEscape(value)}
}
