// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/auth"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// Credentials gives user name and secret for a host[:port].
type Credentials = auth.Credentials

// Observation is one finished HTTP request.
type Observation = transport.Observation

// Quota is how many requests a registry says that it lets the caller make.
type Quota = transport.Quota

// Options are what all checks and pulls of a node have in common. The zero
// value asks each registry under its own name.
type Options struct {
	// HostDirs are directories of hosts.toml trees. The first that has a
	// directory for the host, or _default, decides. Default: none.
	HostDirs []string

	// HostsWatcher knows the last good hosts.toml of each host directory, for when the
	// newest cannot be used. The caller closes it after the Resolver. Default: nil,
	// only hosts in use stay as they were.
	HostsWatcher *hosts.Watcher

	// Hosts replaces HostDirs, for containerd's deprecated CRI mirrors. It is
	// asked once for a registry, without credentials since its authorizers are
	// replaced, must make new clients at each call, and must call the given
	// function on each. Default: nil, HostDirs decide.
	Hosts func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts

	// HostsNamed reports whether Hosts has something for that very spelling of a registry's
	// name. All others are asked by the registry's one name, as with HostDirs those are that
	// have no directory. Default: nil, it has not.
	HostsNamed func(name string) bool

	// Headers are sent with every request, to token servers too. Default: none.
	Headers http.Header

	// ProgressTimeout is how long a pull lasts of which no byte comes: the hosts of a reference
	// share it, so that one which is silent in the middle of content leaves time for the others.
	// Default: 0, hosts may be silent for as long as the pull lasts.
	ProgressTimeout time.Duration

	// Observe is called after each HTTP request, on the goroutine that made it
	// and without locks. Default: nil, nobody listens.
	Observe func(Observation)
}

// Resolver asks registries. It keeps connections, tokens and what it knows of
// hosts in trouble from one session to the next. Safe for concurrent use.
type Resolver struct {
	options Options
	hosts   *hosts.Cache
	tokens  *auth.Cache
	health  *health.Breakers
}

// New returns a Resolver. The caller closes it.
func New(options Options) *Resolver {
	options.Headers = hosts.CanonicalHeaders(options.Headers)
	configured := hosts.Options{Dirs: options.HostDirs, Watcher: options.HostsWatcher, Headers: options.Headers}
	if options.Hosts != nil {
		configured.Named = options.HostsNamed
		configured.Configure = func(ctx context.Context, update config.UpdateClientFunc) docker.RegistryHosts {
			return options.Hosts(ctx, nil, update)
		}
	}
	return &Resolver{options: options, hosts: hosts.NewCache(configured), tokens: auth.NewCache(), health: health.New()}
}

// Close ends all connections, also those of sessions that are open, and all probes.
// Nothing can be asked any more. It never fails.
func (r *Resolver) Close() error {
	r.health.Close()
	for _, set := range r.hosts.Close() {
		r.tokens.Forget(set)
	}
	return nil
}

// Troubled lists the hosts that are in trouble, by name.
func (r *Resolver) Troubled() []health.State { return r.health.States() }

// Query says what a Session is about, and what its caller has already.
type Query struct {
	// Reference is a normalised name: docker.io/library/nginx:1.27 or
	// docker.io/library/nginx@sha256:…
	Reference string

	// Credentials are asked for each host that wants some. nil means anonymous.
	Credentials Credentials

	// Asker tells whose Credentials these are, and nothing of them: others may give the same for the
	// hosts of the reference, and something else where these redirect to. What the one has met with
	// there says nothing to the other. "" = nobody's.
	Asker string

	// Answered is called, once or more, when a host begins to answer a check with success or a
	// redirect, and returns at once: what the name stands for may be decided then, though the
	// bytes are still to come, here or where the redirect leads, or another manifest is still to
	// be read. The check may fail all the same. nil = nobody is told.
	Answered func()

	// Order says which hosts may resolve the name, and when. Content still comes
	// from all hosts.
	Order Order

	// Allow says which hosts (as references spell them: docker.io, not
	// registry-1.docker.io) may be asked for anything. nil means all.
	Allow func(host string) bool

	// Authority says which hosts (as references spell them) speak for the registry
	// of the name when they refuse a caller, or say that they do not have an image:
	// such an answer ends a check, and is its class. nil means none.
	Authority func(host string) bool

	// Known is the digest that the node has for the reference; "" means none. An
	// answer that repeats it needs no size and no type.
	Known digest.Digest

	// ReadManifest has a check read the manifest or index that the name stands for, by
	// GET in the place of HEAD: its bytes must have the digest, and a refusal of them is
	// the answer. false = a check asks for the digest alone.
	ReadManifest bool

	// Absent says that the caller has nothing for the reference, and may pull what it is
	// told: a host is asked for the manifest at once, by GET in the place of HEAD, and the
	// Source has its bytes. It is asked for the digest alone where the pull would ask another
	// host first for the manifest, and where that is slow to come or refused. false = a check
	// asks for the digest alone.
	Absent bool

	// Nested is read, too, by ReadManifest where the name stands for its index: a
	// registry may refuse it alone. The zero value means none.
	Nested Nested

	// Fallback are the classes of failure after which the caller has something
	// else to use, such as a cached image. Then hosts that are known to be in
	// trouble are not asked, and nothing waits for them, but for a moment for a probe
	// where that is not known of late. Empty means that there is nothing else to use.
	Fallback failure.Set
}

// Nested is a manifest in an index: the one of the node's platform in what the node has
// for a reference.
type Nested struct {
	Index    digest.Digest
	Manifest digest.Digest
}

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
// asked yet; ctx is only used for logging. The error is a [*hosts.FileError] when
// hosts.toml is not right and no good version of it is known, and a [*SourcesError] when no host is allowed. The
// caller closes the session.
func (r *Resolver) Open(ctx context.Context, q Query) (Session, error) {
	s, all, err := r.prepare(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(s.hosts) == 0 && len(all) > 0 {
		s.Close()
		return nil, &SourcesError{Reference: q.Reference, Hosts: s.leftOut}
	}
	return s, nil
}

// prepare makes a session with the hosts that are allowed, and returns all that are
// configured too. The caller closes the session.
func (r *Resolver) prepare(ctx context.Context, q Query) (s *session, all []*host, err error) {
	spec, err := reference.Parse(q.Reference)
	if err != nil {
		return nil, nil, fmt.Errorf("reference %q: %w", q.Reference, err)
	}
	set, change, err := r.hosts.Acquire(ctx, spec.Hostname())
	if err != nil {
		return nil, nil, err
	}
	r.applyChange(change, set)
	spec.Locator = set.Name() + strings.TrimPrefix(registryname.Repository(spec.Locator), registryname.Canonical(spec.Hostname()))
	s = &session{
		query:    q,
		spec:     spec,
		headers:  r.options.Headers,
		redactor: &redact.Redactor{},
		kept:     &atomic.Pointer[document]{},
		said:     &sayers{},
		named:    set.Named(),
		openness: new(openness),
		release:  sync.OnceFunc(func() { r.hosts.Release(set) }),
	}
	creds := auth.Redacted(q.Credentials, s.redactor)
	all = r.newHosts(set, spec.Locator, q.Asker, creds, s.redactor)
	s.identified = slices.ContainsFunc(all, s.identifies)
	s.hosts, s.leftOut = allowed(all, q.Allow)
	for _, h := range s.hosts {
		h.authority = q.Authority != nil && q.Authority(h.Name())
		h.patience = r.options.ProgressTimeout / time.Duration(len(s.hosts))
	}
	return s, all, nil
}

// applyChange forgets whatever a change of the configuration may have put right, and
// the tokens of hosts that are of no use any more.
func (r *Resolver) applyChange(change hosts.Change, current *hosts.Set) {
	if change.Reconfigured {
		r.forgetTrouble(current)
	}
	for _, set := range change.Retired {
		if set.Name() == current.Name() {
			r.forgetTrouble(set) // nobody asks the hosts so any more
		}
		r.tokens.Forget(set)
	}
}

func (r *Resolver) forgetTrouble(set *hosts.Set) {
	for _, h := range set.Hosts() {
		r.health.Forget(h.Key())
	}
}
