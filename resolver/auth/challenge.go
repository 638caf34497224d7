// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/auth"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// challenge is what a host wants for any of its repositories, as far as that follows from
// what it has wanted for one: see https://distribution.github.io/distribution/spec/auth/token/.
// Challenges are compared with ==.
type challenge struct {
	realm, service string
	scoped         bool   // it names a scope
	prefix         string // of the repository in that, for hosts that are part of another
}

// meet has an authorizer of docker's meet the challenge of an answer. Nobody hears what it logs
// meanwhile: the first bytes of what the host says was wrong, which may end in the middle of a
// secret.
func meet(ctx context.Context, inner docker.Authorizer, wants *http.Response) error {
	return inner.AddResponses(redact.Mute(ctx), []*http.Response{wants})
}

// maxRealms bounds the names of token servers in an answer together, in bytes: secrets are looked for in them.
const maxRealms = 8 << 10

var (
	errParted = errors.New("the token server that it names has a secret in its name")
	errLong   = errors.New("it names token servers in more than 8 KiB")
)

// unfit says why the challenges of an answer cannot be met, whatever credentials there are. With its status the
// answer refuses the caller all the same, who may be why they are so long, or have the secret. It does not where that is
// a token or signs a URL: a storage service, or its token server, may have chosen it to be a part of what the host says.
func unfit(resp *http.Response, redactor *redact.Redactor) error {
	texts, lasting, size := redactor.Texts(), redactor.LastingTexts(), 0
	var realms []string
	for _, c := range auth.ParseAuthHeader(resp.Header) {
		if realm := c.Parameters["realm"]; c.Scheme == auth.BearerAuth && realm != "" { // that of Basic is a text
			realms, size = append(realms, realm), size+len(realm)
		}
	}
	switch {
	case size > maxRealms:
		return errLong
	case slices.ContainsFunc(realms, func(realm string) bool { return parts(realm, texts) }):
		own := slices.ContainsFunc(realms, func(realm string) bool { return parts(realm, lasting) })
		return &fault.Fault{Class: failure.Unauthorized, Err: errParted, Elsewhere: !own}
	}
	return nil
}

// parts reports whether the token server of a challenge has the beginning of a secret before its
// query, and the rest in that, or has one, and a name that docker's authorizer writes in another way:
// that also sorts the query. Nobody would know the secret in what is asked.
func parts(realm string, texts *redact.Texts) bool {
	name := beforeQuery(realm)
	if texts.Crosses(realm, len(name)) {
		return true
	}
	u, err := url.Parse(realm)
	if err != nil {
		return false
	}
	u.Host = strings.TrimSuffix(u.Host, ":") // as net/http does
	return beforeQuery(u.String()) != name && texts.Knows(realm)
}

func beforeQuery(address string) string { return address[:strings.IndexAny(address+"?", "?#")] }

// wantsToken reports whether an answer to a user name and password asks for a token. One that
// repeats either does not: of a secret that ends the name of its token server, the beginning would
// be asked for.
func wantsToken(resp *http.Response, redactor *redact.Redactor) bool {
	if slices.ContainsFunc(resp.Header.Values("WWW-Authenticate"), redactor.LastingTexts().Knows) {
		return false
	}
	return slices.ContainsFunc(auth.ParseAuthHeader(resp.Header), func(c auth.Challenge) bool { return c.Scheme == auth.BearerAuth })
}

// maxChallenge bounds a challenge that is remembered of a caller, in bytes: those of registries
// have some hundreds.
const maxChallenge = 2 << 10

// challengeSize is how long the challenges of an answer are, in bytes; nil has none.
func challengeSize(resp *http.Response) (size int) {
	if resp == nil {
		return 0
	}
	for _, text := range resp.Header.Values("WWW-Authenticate") {
		size += len(text)
	}
	return size
}

// readChallenge returns the challenge of an answer to a request for a repository; false
// where those for other repositories cannot be told from it. Basic is none: credentials
// themselves are only sent when they are asked for.
func readChallenge(resp *http.Response, repository string) (c challenge, ok bool) {
	if challengeSize(resp) > maxChallenge {
		return challenge{}, false
	}
	all := auth.ParseAuthHeader(resp.Header)
	if len(all) != 1 || all[0].Scheme != auth.BearerAuth {
		return challenge{}, false
	}
	for name, value := range all[0].Parameters {
		if strings.ContainsAny(value, `"\`) {
			return challenge{}, false
		}
		switch name {
		case "realm":
			c.realm = value
		case "service":
			c.service = value
		case "scope":
			c.scoped = true
			if c.prefix, ok = prefixOf(value, repository); !ok {
				return challenge{}, false
			}
		default:
			return challenge{}, false
		}
	}
	return c, c.realm != ""
}

// isOf reports whether it is the challenge of an answer to a request for a repository.
func (c challenge) isOf(resp *http.Response, repository string) bool {
	of, ok := readChallenge(resp, repository)
	return ok && of == c
}

// prefixOf returns what stands before a repository in a scope to pull from it.
func prefixOf(scope, repository string) (prefix string, ok bool) {
	resource, pulls := strings.CutSuffix(scope, ":pull")
	name, isRepository := strings.CutPrefix(resource, "repository:")
	prefix, ok = strings.CutSuffix(name, pathOf(repository))
	return prefix, ok && pulls && isRepository && (prefix == "" || strings.HasSuffix(prefix, "/"))
}

// pathOf returns a repository without its registry.
func pathOf(repository string) string {
	_, path, _ := strings.Cut(repository, "/")
	return path
}

// answer returns the answer in which a host would say so for a repository.
func (c challenge) answer(u *url.URL, repository string) *http.Response {
	text := `Bearer realm="` + c.realm + `"`
	if c.service != "" {
		text += `,service="` + c.service + `"`
	}
	if c.scoped {
		text += `,scope="repository:` + c.prefix + pathOf(repository) + `:pull"`
	}
	return bare(&http.Response{
		StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {text}},
		Request: &http.Request{Method: http.MethodHead, URL: u},
	})
}
