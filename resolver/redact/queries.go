// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	minQuery   = 16       // values of a query that are shorter sign nothing
	minSigning = 8        // but for those whose names say that they do
	maxValues  = 512      // that are known, the last ones
	maxQueries = 64 << 10 // bytes of them, and of a query that is read
)

// AddURL makes texts hide what a URL has to which a host redirects, in its query and its user: a
// storage service may repeat by what it was signed. asked is host, path and query of what was
// asked for before, in each way to write them, "" = nothing: what is in the first two is no secret, nor is a URL that it is, or
// begins with. A query may sign, and counts as a whole, but for that by which mirrors are asked. Nor is one with which u itself begins: nobody would follow its host's redirects by paths, which leave out what
// is behind that.
func (r *Redactor) AddURL(u *url.URL, asked ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addUser(u.User)
	for pair := range strings.SplitSeq(u.RawQuery[:min(len(u.RawQuery), maxQueries)], "&") {
		name, value, named := strings.Cut(pair, "=")
		if !named {
			name, value = "", pair
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain // it is found however it is escaped
		}
		r.addValue(u, name, value, asked)
		for part := range strings.SplitSeq(value, "~") { // exp=1~hmac=2 of Akamai
			if name, value, named := strings.Cut(part, "="); named {
				r.addValue(u, name, value, asked)
			}
		}
	}
}

// HideURL is AddURL for texts alone: the host is refused nothing for what it says in an answer that is not judged yet.
func (r *Redactor) HideURL(u *url.URL, asked ...string) { r.all().AddURL(u, asked...) }

// ForgetQueries has texts hide no more what AddURL has added, and keeps none of it.
func (r *Redactor) ForgetQueries() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries, r.last = recent{}, nil
	r.changes.Add(1)
}

// addValue adds the value of the query of a URL, unless it is what errors have to say: the names of images,
// and of types. Its name may be "".
func (r *Redactor) addValue(u *url.URL, name, value string, asked []string) {
	if len(value) < minSigning {
		return
	}
	signs := maySign(name)
	if len(value) < minQuery && !signs {
		return
	}
	if isAlgorithm(value) || aTime.MatchString(value) || begins(value, u) || slices.ContainsFunc(asked, func(a string) bool { return says(value, a) }) {
		return
	}
	if name == "" || signs || !isMediaType(value) && !isPath(value, asked) {
		r.addSigned(value)
	}
}

// says reports whether a value says what was asked, or a part of it.
func says(value, asked string) bool {
	public, query, _ := strings.Cut(asked, "?")
	if IsMirrorQuery(query) {
		public = asked
	}
	return strings.Contains(public, value) || beginsURL(value, public) ||
		len(value) > len(query) && strings.HasSuffix(asked, value) || // with all of the query
		beginsURL(value, asked) && strings.HasSuffix(value, asked)
}

// IsMirrorQuery reports whether a query is that by which mirrors are asked: it names the registry, and signs nothing.
func IsMirrorQuery(query string) bool {
	return strings.HasPrefix(query, "ns=") && !strings.Contains(query, "&")
}

// begins reports whether a URL begins with a value.
func begins(value string, u *url.URL) bool {
	return beginsURL(value, u.Host+u.Path) || beginsURL(value, u.Host+u.EscapedPath())
}

// beginsURL reports whether a value is a URL with which another one begins, without its scheme, by whichever scheme: before
// some hosts others end TLS.
func beginsURL(value, whole string) bool {
	scheme, rest, _ := strings.Cut(value, "://")
	return (scheme == "http" || scheme == "https") && rest != "" && strings.HasPrefix(whole, rest)
}

// addUser adds the password of a URL, which net/http sends as Basic. Alone, a user is one.
func (r *Redactor) addUser(user *url.Userinfo) {
	if user == nil {
		return
	}
	name := user.Username()
	password, _ := user.Password()
	both := []byte(name + ":" + password)
	both = both[:min(len(both), maxQueries)]
	r.addSigned(base64.RawStdEncoding.EncodeToString(both))
	r.addSigned(base64.RawURLEncoding.EncodeToString(both))
	if password == "" {
		if len(name) < minQuery {
			return
		}
		password = name
	}
	for _, spelling := range spellings(password[:min(len(password), maxQueries)]) {
		r.addSigned(spelling)
	}
}

func (r *Redactor) addSigned(value string) {
	value = strings.Clone(value) // the rest of the URL may be much longer
	if r.queries.add(maxValues, maxQueries, value) {
		r.changes.Add(1)
	}
}

// aTime is when something was signed.
var aTime = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z$`)

// algorithms are those that storage services name beside what is signed by them.
var algorithms = []string{"AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "GOOG4-HMAC-SHA256", "GOOG4-RSA-SHA256"}

func isAlgorithm(value string) bool {
	return slices.ContainsFunc(algorithms, func(name string) bool { return strings.EqualFold(name, value) })
}

// signing are parts of names whose values are hidden even where they are words: a passphrase is.
var signing = []string{"sig", "token", "key", "secret", "pass", "pw", "cred", "auth", "mac", "hash", "policy", "ticket", "session"}

// naming are ends of names with a part of signing, whose values are names all the same: Artifactory
// has them.
var naming = []string{"repositorykey", "projectkey"}

// maySign reports whether a value of that name may sign a URL, or let somebody in.
func maySign(name string) bool {
	plain, err := url.QueryUnescape(name)
	plain = strings.ToLower(plain)
	if slices.ContainsFunc(naming, func(end string) bool { return strings.HasSuffix(plain, end) }) {
		return false
	}
	return err != nil || slices.ContainsFunc(signing, func(part string) bool { return strings.Contains(plain, part) })
}
