// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"net/url"
	"regexp"
	"strings"
)

var (
	schemes = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://`)
	slashes = regexp.MustCompile(`\\+/`) // as PHP writes them
)

// maxURL bounds what is shown of a URL, in bytes, so that no error that has it is cut there: half a secret that another
// Redactor knows would not be found.
const maxURL = 512

// enclosers are what may stand around a URL, or behind it, or be in its user.
const enclosers = `'<>\`

// cutURLs takes users and queries out of all that looks like a URL in a line. What encloses a
// URL may be in its user and its query, too: either may end at a space or a quote only. It takes
// no longer than to read the line, whoever has written that.
func cutURLs(line string) string {
	line = slashes.ReplaceAllString(line, "/")
	var b strings.Builder
	for quoted := false; line != ""; {
		n := word(line)
		if quoted {
			n = max(n, quotedURL(line))
		}
		quoted = line[n-1] == '"'
		for rest := line[:n]; rest != ""; {
			at := schemes.FindStringIndex(rest)
			if at == nil || at[1] == len(rest) {
				b.WriteString(rest)
				break
			}
			end := at[1] + endOfURL(rest[at[1]:])
			b.WriteString(rest[:at[0]] + RawURL(rest[at[0]:end]))
			rest = rest[end:]
		}
		line = line[n:]
	}
	return b.String()
}

// word returns how long the beginning of a line is that has no space and no quote, but for
// those that are escaped; 1 for such a one.
func word(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ', '"':
			return max(i, 1)
		case '\\':
			i++
		}
	}
	return len(line)
}

// aScheme is what a URL begins with.
var aScheme = regexp.MustCompile(`^` + schemes.String())

// quotedURL returns how long a URL is with which a line begins, right behind a quote, where its
// user or its query has spaces: to the next quote. 0 for another one, or where no quote ends it.
func quotedURL(line string) int {
	if !aScheme.MatchString(line) {
		return 0
	}
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			if strings.ContainsAny(line[:i], "@?") {
				return i
			}
			return 0
		}
	}
	return 0
}

// endOfURL returns where a URL ends in the rest of a word, behind its scheme: at the end, before
// the next URL, or before what encloses it, unless its user or its query may be behind that.
func endOfURL(rest string) int {
	if next := schemes.FindStringIndex(rest); next != nil && !strings.Contains(rest[:next[0]], "?") {
		rest = rest[:next[0]]
	}
	end := strings.IndexAny(rest, enclosers+"?")
	for end >= 0 && rest[end] != '?' {
		if strings.Contains(rest[end:], "?") {
			break
		}
		at := strings.LastIndexByte(rest[end:], '@')
		if at < 0 {
			return end
		}
		next := strings.IndexAny(rest[end+at:], enclosers+"?")
		if next < 0 {
			break
		}
		end += at + next
	}
	return len(rest)
}

// RawURL returns scheme, host and path of a URL that may not parse: user, query
// and fragment may hold credentials.
func RawURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if ok {
		if u, err := url.Parse(raw); err == nil && !mayHaveUser(rest) {
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

// URL returns scheme, host and path of a URL. Where a slash too many stands before the host, user and
// password are in the path.
func URL(u *url.URL) string {
	if u.Host == "" && strings.Contains(u.Path, "@") {
		return u.Scheme + "://" + hidden
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, OmitHost: u.OmitHost}).String()
}

// URL is the function of that name, without secrets. They are looked for before anything is cut
// off, since a query or a fragment may have the end of one.
func (r *Redactor) URL(u *url.URL) string {
	if u.User != nil && !r.TellsHost(u) { // the secret may begin in what is left out
		return u.Scheme + "://" + hidden
	}
	whole, shown := *u, URL(u)
	whole.User = nil
	text := whole.String()
	if !strings.HasPrefix(text, shown) || len(text) > maxKnown || len(shown) > maxURL { // nobody knows where a secret would be
		return u.Scheme + "://" + hidden
	}
	return r.hideBefore(text, len(shown), false)
}

// rawURL is URL for one that has been sent, as a text.
func (r *Redactor) rawURL(raw string) string {
	if u, err := url.Parse(raw); err == nil && URL(u) == RawURL(raw) {
		return r.URL(u)
	}
	return RawURL(raw)
}

// mayHaveUser reports whether what looks like a port, and a query or a fragment without a path,
// may be a user and a password.
func mayHaveUser(rest string) bool {
	rest = strings.TrimLeft(rest, "/") // one too many
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && rest[end] != '/' && strings.Contains(rest[:end], ":") && strings.Contains(rest[end:], "@")
}

// quotedHost is what is quoted, and is a URL, or has a user and perhaps a password.
var quotedHost = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:@|://)(?:[^"\\]|\\.)*`)

// QuotedUsers takes users, queries and fragments out of the hosts and URLs that a text quotes as
// they are spelled in a file: with spaces, or without a scheme.
func QuotedUsers(text string) string {
	return quotedHost.ReplaceAllStringFunc(text, func(host string) string { return `"` + RawURL(host[1:]) })
}

// QuotedURLs is QuotedUsers for URLs alone.
func QuotedURLs(text string) string {
	return quotedHost.ReplaceAllStringFunc(text, func(quoted string) string {
		if !strings.Contains(quoted, "://") {
			return quoted
		}
		return `"` + RawURL(quoted[1:])
	})
}
