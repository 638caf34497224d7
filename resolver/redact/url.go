// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"strings"
)

// RawURL returns scheme, host and path of a URL that may not parse: user, query
// and fragment may hold credentials.
func RawURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if ok {
		if u, err := url.Parse(raw); err == nil {
			return URL(u)
		}
		scheme += "://"
	} else {
		scheme, rest = "", raw // the user would be taken for a scheme, or for a path
	}
	plain := rest
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		plain = rest[:end]
		if strings.Contains(rest[end:], "@") {
			return scheme + hidden // either may be in a password
		}
	}
	return scheme + plain[strings.LastIndex(plain, "@")+1:]
}

// URL returns scheme, host and path of a URL.
func URL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
