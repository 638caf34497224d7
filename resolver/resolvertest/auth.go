// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"crypto/subtle"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// auth stands in front of the registry's handlers.
type auth interface {
	// answered reports whether the request needs no further answer: it was
	// refused, or it was for the token server.
	answered(w http.ResponseWriter, r *http.Request, self string) bool
	users() *gate
}

// gate knows who may do what.
type gate struct {
	mu        sync.Mutex
	passwords map[string]string // of users
	allow     func(user, repository string) bool
}

func newGate(users map[string]string) *gate {
	return &gate{passwords: maps.Clone(users), allow: func(user, _ string) bool { return user != "" }}
}

func (g *gate) users() *gate { return g }

// known reports whether the request carries a user's name and password.
func (g *gate) known(user, password string) bool {
	g.mu.Lock()
	want, ok := g.passwords[user]
	g.mu.Unlock()
	return ok && subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1
}

func (g *gate) allowed(user, repository string) bool {
	g.mu.Lock()
	allow := g.allow
	g.mu.Unlock()
	return allow(user, repository)
}

// Allow says who may use which repository, from now on (tokens that are out
// keep what they grant). The user is "" for a caller without credentials.
// Default: any user, every repository. Without authentication it does nothing.
func (r *Registry) Allow(allow func(user, repository string) bool) {
	if r.auth == nil {
		return
	}
	g := r.auth.users()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allow = allow
}

// SetPassword gives a user that the registry knows another password, from now on; tokens
// that are out keep what they grant. Without authentication it does nothing.
func (r *Registry) SetPassword(user, password string) {
	if r.auth == nil {
		return
	}
	g := r.auth.users()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.passwords[user]; known {
		g.passwords[user] = password
	}
}

// WithBasicAuth asks for one of these users (name: password) on each request.
func WithBasicAuth(users map[string]string) Option {
	return func(r *Registry) { r.auth = &basicAuth{newGate(users)} }
}

type basicAuth struct{ *gate }

func (a *basicAuth) answered(w http.ResponseWriter, r *http.Request, _ string) bool {
	user, password, given := r.BasicAuth()
	repository := repositoryOf(r.URL.Path)
	switch {
	case given && !a.known(user, password), !given && !a.allowed("", repository):
		w.Header().Set("WWW-Authenticate", `Basic realm="resolvertest"`)
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return true
	case given && repository != "" && !a.allowed(user, repository):
		writeError(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
		return true
	}
	return false
}

// repositoryOf returns the repository that a path is about, "" for none.
func repositoryOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return ""
	}
	for _, mark := range []string{"/manifests/", "/blobs/", "/tags/"} {
		if i := strings.LastIndex(rest, mark); i > 0 {
			return rest[:i]
		}
	}
	return ""
}

// actionOf returns the action that a method needs in a token.
func actionOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "pull"
	case http.MethodDelete:
		return "delete"
	}
	return "push"
}
