// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// CanonicalHeaders returns headers of the node's configuration by the names that net/http
// looks for. containerd keeps them by the names that the operator has spelled, which net/http
// sends, but neither finds nor takes out of what it sends to others. Several spellings of one
// name have all their values, in the order in which net/http would send them. Accept-Encoding is
// left out: requests have one of their own, which would be taken out with it, and net/http's come
// in its place.
func CanonicalHeaders(spelled http.Header) http.Header {
	if spelled == nil {
		return nil
	}
	canonical := make(http.Header, len(spelled))
	for _, name := range slices.Sorted(maps.Keys(spelled)) {
		own := http.CanonicalHeaderKey(name)
		canonical[own] = append(canonical[own], spelled[name]...)
	}
	delete(canonical, "Accept-Encoding")
	return canonical
}

// takeOut takes the values of configured headers out of those of a request, however their names
// are spelled. What others have set by the same names stays.
func takeOut(of http.Header, configured ...http.Header) {
	for _, headers := range configured {
		for name, secret := range headers {
			for sent, values := range of {
				if !strings.EqualFold(sent, name) {
					continue
				}
				values = slices.DeleteFunc(values, func(value string) bool { return slices.Contains(secret, value) })
				if of[sent] = values; len(values) == 0 {
					delete(of, sent)
				}
			}
		}
	}
}
