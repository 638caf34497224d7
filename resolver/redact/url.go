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
	u, err := url.Parse(raw)
	if err != nil {
		scheme, rest, _ := strings.Cut(raw, "://")
		rest, _, _ = strings.Cut(rest, "?")
		rest, _, _ = strings.Cut(rest, "#")
		return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	return URL(u)
}

// URL returns scheme, host and path of a URL.
func URL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
