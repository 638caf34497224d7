// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
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

	// Hosts replaces HostDirs, for containerd's deprecated CRI mirrors. It must
	// make new clients at each call, and call the given function on each, as
	// config.ConfigureHosts does. Default: nil, HostDirs decide.
	Hosts func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts

	// Headers are sent with every request, to token servers too. Default: none.
	Headers http.Header

	// Observe is called after each HTTP request, on the goroutine that made it
	// and without locks. Default: nil, nobody listens.
	Observe func(Observation)
}

// Resolver asks registries. Safe for concurrent use.
type Resolver struct {
	options Options
}

// New returns a Resolver.
func New(options Options) *Resolver {
	return &Resolver{options: options}
}

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

	// Known is the digest that the node holds; "" means none.
	Known digest.Digest

	// Allow says which hosts (as references spell them: docker.io, not
	// registry-1.docker.io) may be asked for anything. nil means all.
	Allow func(host string) bool
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

// Open reads the configuration of the hosts for a reference, so that a change
// takes effect at the next Open, and prepares to ask them. Nothing is asked
// yet; ctx is only used for logging. The error is a [*HostsFileError] when
// hosts.toml is not right, and a [*SourcesError] when no host is allowed.
func (r *Resolver) Open(ctx context.Context, req Request) (*Session, error) {
	spec, err := reference.Parse(req.Reference)
	if err != nil {
		return nil, fmt.Errorf("reference %q: %w", req.Reference, err)
	}
	s := &Session{
		reference:  req.Reference,
		spec:       spec,
		originOnly: req.OriginOnly,
		known:      req.Known,
		headers:    r.options.Headers,
		secrets:    &secrets{},
	}
	creds := s.credentials(req.Credentials)
	configured, err := r.configuredHosts(ctx, spec.Hostname(), creds, s.adopt)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.hosts = allowed(r.newHosts(spec.Hostname(), configured, creds, s.secrets), req.Allow)
	if len(s.hosts) == 0 && len(configured) > 0 {
		s.Close()
		return nil, &SourcesError{Reference: req.Reference, Hosts: hostNames(configured)}
	}
	return s, nil
}

// maxReads is how often a host directory is read again when it changes while
// it is read.
const maxReads = 3

func (r *Resolver) configuredHosts(ctx context.Context, name string, creds Credentials, adopt config.UpdateClientFunc) ([]docker.RegistryHost, error) {
	if r.options.Hosts != nil {
		return r.options.Hosts(ctx, creds, adopt)(name)
	}
	dir, err := r.hostDir(name)
	if err != nil {
		return nil, fmt.Errorf("hosts of %s: %w", name, err)
	}
	options := config.HostOptions{
		HostDir:      func(string) (string, error) { return dir, nil },
		UpdateClient: adopt,
	}
	// containerd takes a hosts.toml that does not parse for a directory of
	// certificates, so it must read what has been found right.
	for range maxReads {
		data, err := checkHostsFile(dir)
		if err != nil {
			return nil, err
		}
		hosts, err := config.ConfigureHosts(ctx, options)(name)
		if err != nil {
			return nil, hostsError(dir, name, err)
		}
		again, err := readHostsFile(dir)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(data, again) {
			return hosts, nil
		}
	}
	return nil, hostsError(dir, name, errors.New("the file changes while it is read"))
}

// hostDir returns the directory that configures a host, "" if none does.
func (r *Resolver) hostDir(name string) (string, error) {
	for _, root := range r.options.HostDirs {
		dir, err := config.HostDirFromRoot(root)(name)
		if err == nil || !errdefs.IsNotFound(err) {
			return dir, err
		}
	}
	return "", nil
}
