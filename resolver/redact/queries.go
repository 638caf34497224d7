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

// queries are values of queries, the last one last.
type queries struct {
	all   []string
	known map[string]bool // all of them
	size  int             // in bytes
}

// AddQuery makes texts hide what the query of a URL has to which a host redirects: a storage
// service may repeat by what it was signed.
func (r *Redactor) AddQuery(u *url.URL) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pair := range strings.SplitSeq(u.RawQuery[:min(len(u.RawQuery), maxQueries)], "&") {
		raw := pair
		if _, value, ok := strings.Cut(pair, "="); ok {
			raw = value
		}
		r.queries.add(raw) // whoever made the URL may escape in another way
		if value, err := url.QueryUnescape(raw); err == nil {
			r.queries.add(value)
			r.queries.add(url.QueryEscape(value))
		}
	}
}

// add adds a value, and drops the first ones where that is too much.
func (q *queries) add(value string) {
	if len(value) < minQuery || q.known[value] {
		return
	}
	if q.known == nil {
		q.known = map[string]bool{}
	}
	value = strings.Clone(value) // the rest of the URL may be much longer
	q.all, q.size, q.known[value] = append(q.all, value), q.size+len(value), true
	for q.size > maxQueries {
		q.size -= len(q.all[0])
		delete(q.known, q.all[0])
		q.all = q.all[1:]
	}
}
