// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Credentials gives user name and secret for a host[:port], as
// docker.WithAuthCreds takes it. Two empty strings mean that there are none. An
// error is reported without its text, which may quote them.
type Credentials func(host string) (username, secret string, err error)

// Options are what all checks and pulls of a node have in common. The zero
// value asks each registry under its own name.
type Options struct {
	// HostDirs are directories of hosts.toml trees. The first that has a
	// directory for the host, or _default, decides. Default: none.
	HostDirs []string

	// Hosts replaces HostDirs, for containerd's deprecated CRI mirrors. It is
	// asked once for a registry, without credentials since its authorizers are
	// replaced, must make new clients at each call, and must call the given
	// function on each. Default: nil, HostDirs decide.
	Hosts func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts

	// Headers are sent with every request, to token servers too. Default: none.
	Headers http.Header

	// Observe is called after each HTTP request, on the goroutine that made it
	// and without locks. Default: nil, nobody listens.
	Observe func(Observation)
}

// Resolver asks registries. It keeps connections, tokens and what it knows of
// hosts in trouble from one session to the next. Safe for concurrent use.
type Resolver struct {
	options  Options
	sets     *hostSets
	tokens   *tokenCache
	breakers breakers
	dialer   dialer
}

// New returns a Resolver. Whoever has no use for it any more closes it.
func New(options Options) *Resolver {
	return &Resolver{options: options, sets: newHostSets(), tokens: newTokenCache()}
}

// Close ends all connections, also those of sessions that are open. Nothing can
// be asked any more. It never fails.
func (r *Resolver) Close() error {
	r.retire(r.sets.close())
	r.dialer.close()
	return nil
}

// Breakers lists the hosts that are in trouble, by name.
func (r *Resolver) Breakers() []BreakerState { return r.breakers.states() }

// Request is what a Session is about.
type Request struct {
	// Reference is a normalised name: docker.io/library/nginx:1.27 or
	// docker.io/library/nginx@sha256:…
	Reference string

	// Credentials are asked for each host that wants some. nil means anonymous.
	Credentials Credentials

	// OriginOnly lets only the registry that the name says resolve it. Content
	// still comes from all hosts.
	OriginOnly bool

	// Local tells what the caller has already. It is called when an answer, or
	// a host in trouble, makes that matter, and not more than once; it may wait
	// for a look-up that goes on while a host is asked. nil means that there is
	// nothing.
	Local func() Local

	// Allow says which hosts (as references spell them: docker.io, not
	// registry-1.docker.io) may be asked for anything. nil means all.
	Allow func(host string) bool
}

// Local is what the caller of a check has already. The zero value is nothing.
type Local struct {
	// Digest is what the node holds for the reference; "" means none.
	Digest digest.Digest

	// Fallback tells whether the caller has something else to use after a check
	// that failed with that class, such as a cached image. Then hosts that are
	// known to be in trouble are not asked. nil means that there is nothing.
	Fallback func(failure.Class) bool
}

// fallsBack reports whether there is something to use after such a failure.
func (l Local) fallsBack(class failure.Class) bool {
	return l.Fallback != nil && l.Fallback(class)
}

// nothing is the Local of callers that have nothing.
func nothing() Local { return Local{} }

// SourcesError says that none of the hosts for a reference is allowed.
type SourcesError struct {
	Reference string
	Hosts     []string // that would have been asked
}

// Error names the hosts.
func (e *SourcesError) Error() string {
	return fmt.Sprintf("%s: none of its hosts is allowed: %s", e.Reference, strings.Join(e.Hosts, ", "))
}

// Open looks at the configuration of the hosts for a reference, so that a
// change takes effect at the next Open, and prepares to ask them. Nothing is
// asked yet; ctx is only used for logging. The error is a [*HostsFileError] when
// hosts.toml is not right, and a [*SourcesError] when no host is allowed. The
// caller closes the session.
func (r *Resolver) Open(ctx context.Context, req Request) (*Session, error) {
	spec, err := reference.Parse(req.Reference)
	if err != nil {
		return nil, fmt.Errorf("reference %q: %w", req.Reference, err)
	}
	set, err := r.hostSet(ctx, spec.Hostname())
	if err != nil {
		return nil, err
	}
	s := &Session{
		reference:  req.Reference,
		spec:       spec,
		originOnly: req.OriginOnly,
		local:      nothing,
		headers:    r.options.Headers,
		secrets:    &secrets{},
		release:    sync.OnceFunc(func() { r.release(set) }),
	}
	if req.Local != nil {
		s.local = sync.OnceValue(req.Local)
	}
	s.hosts = allowed(r.newHosts(set, spec.Locator, s.credentials(req.Credentials), s.secrets), req.Allow)
	if len(s.hosts) == 0 && len(set.hosts) > 0 {
		s.Close()
		return nil, &SourcesError{Reference: req.Reference, Hosts: hostNames(set.hosts)}
	}
	return s, nil
}
