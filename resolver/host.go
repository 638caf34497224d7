// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/reference"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// host is one registry host as containerd configures it, with this package's
// transport and authorizer around containerd's.
type host struct {
	docker.RegistryHost
	origin   bool        // it is the registry that the name says
	after    []*host     // that are asked for content after it
	headers  http.Header // of all hosts
	secrets  *secrets
	observe  func(Observation) // nil = nobody listens
	breakers *breakers
}

// newHosts wraps the hosts of a set for one session. Connections and tokens are
// shared with others; what failed, and what must not be repeated, is not.
func (r *Resolver) newHosts(set *hostSet, repository string, creds Credentials, s *secrets) []*host {
	if creds == nil {
		creds = anonymous
	}
	hosts := make([]*host, len(set.hosts))
	for i, c := range set.hosts {
		h := r.newHost(c, s)
		h.Client = h.client(c, false)
		if c.Authorizer != nil {
			h.Authorizer = newAuthorizer(h, func(address string) *tokens {
				username, secret, err := creds(address)
				if err != nil || address != c.Host {
					// Nobody knows whose they are, or they are for elsewhere.
					return newTokens(h.authorizers(c, creds))
				}
				key := tokenKey{set: set, host: i, repository: repository, credentials: r.tokens.fingerprint(username, secret)}
				return r.tokens.share(key, func() *tokens {
					own := r.newHost(c, &secrets{})
					own.secrets.addCredentials(username, secret)
					return newTokens(own.authorizers(c, func(string) (string, string, error) { return username, secret, nil }))
				})
			})
		}
		hosts[i] = h
	}
	return hosts
}

func anonymous(string) (username, secret string, err error) { return "", "", nil }

func (r *Resolver) newHost(c sharedHost, s *secrets) *host {
	return &host{
		RegistryHost: c.RegistryHost,
		origin:       c.origin,
		headers:      r.options.Headers,
		secrets:      s,
		observe:      r.options.Observe,
		breakers:     &r.breakers,
	}
}

// client returns containerd's client with this package's transport.
func (h *host) client(c sharedHost, token bool) *http.Client {
	client := *c.Client
	client.Transport = &transport{host: h, base: c.base, token: token}
	return &client
}

// authorizers returns what makes docker's authorizers for a host.
func (h *host) authorizers(c sharedHost, creds Credentials) func() docker.Authorizer {
	client := h.client(c, true)
	return func() docker.Authorizer {
		return docker.NewDockerAuthorizer(
			docker.WithAuthClient(client),
			docker.WithAuthCreds(creds),
			docker.WithAuthHeader(h.headers),
			docker.WithAuthHeader(h.Header),
		)
	}
}

// allowed returns the hosts that may be asked, each with those after it.
func allowed(hosts []*host, allow func(host string) bool) []*host {
	kept := slices.DeleteFunc(hosts, func(h *host) bool { return allow != nil && !allow(h.name()) })
	for i, h := range kept {
		h.after = kept[i+1:]
	}
	return kept
}

// last reports whether no host is asked for content after h.
func (h *host) last() bool { return len(h.after) == 0 }

// replaceable reports whether a host that is not in trouble is asked for
// content after h.
func (h *host) replaceable() bool {
	return slices.ContainsFunc(h.after, func(other *host) bool { return !h.breakers.blocked(other.key()) })
}

// key is the host's breaker's.
func (h *host) key() string { return h.Scheme + "://" + h.Host }

func (h *sharedHost) key() string { return h.Scheme + "://" + h.Host }

func hostNames(hosts []sharedHost) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = (&host{RegistryHost: h.RegistryHost}).name()
	}
	return names
}

// originOf tells which hosts are the registry that the name says: those that
// are called so, or else the last one, which is the server of hosts.toml.
func originOf(name string, hosts []docker.RegistryHost) func(i int) bool {
	own, err := docker.DefaultHost(name)
	if err != nil {
		own = name
	}
	for _, h := range hosts {
		if h.Host == own {
			return func(i int) bool { return hosts[i].Host == own }
		}
	}
	return func(i int) bool { return i == len(hosts)-1 }
}

func (h *host) attempt(class failure.Class, err error, elapsed time.Duration) Attempt {
	return Attempt{Host: h.Host, Origin: h.origin, Class: class, Err: err, Elapsed: elapsed}
}

// name is the host as references spell it.
func (h *host) name() string {
	if own, err := docker.DefaultHost("docker.io"); err == nil && h.Host == own {
		return "docker.io"
	}
	return h.Host
}

// reference is what the host calls the image of spec. What its path has after
// the API's root (https://host/v2/project with override_path) belongs to the
// repository.
func (h *host) reference(spec reference.Spec) string {
	_, project, _ := strings.Cut(h.Path+"/", "/v2/")
	repository := strings.TrimPrefix(spec.Locator, spec.Hostname()+"/")
	return reference.Spec{Locator: path.Join(h.name(), project, repository), Object: spec.Object}.String()
}
