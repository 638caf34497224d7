// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"net/http"
	"path"
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
	origin  bool        // it is the registry that the name says
	last    bool        // no host is asked for content after it
	headers http.Header // of all hosts
	secrets *secrets
	observe func(Observation) // nil = nobody listens
}

// newHosts wraps the hosts for names of the registry name. The hosts share
// containerd's transports where it shares them, but nothing of this package.
func (r *Resolver) newHosts(name string, configured []docker.RegistryHost, creds Credentials, s *secrets) []*host {
	origin := originOf(name, configured)
	hosts := make([]*host, len(configured))
	for i, c := range configured {
		h := &host{
			RegistryHost: c,
			origin:       origin(i),
			last:         i == len(configured)-1,
			headers:      r.options.Headers,
			secrets:      s,
			observe:      r.options.Observe,
		}
		client := http.Client{}
		if c.Client != nil {
			client = *c.Client
		}
		base := cmp.Or[http.RoundTripper](client.Transport, http.DefaultTransport)
		client.Transport = &transport{host: h, base: base}
		h.Client = &client
		if c.Authorizer != nil {
			tokens := client
			tokens.Transport = &transport{host: h, base: base, token: true}
			h.Authorizer = newAuthorizer(h, func() docker.Authorizer {
				return docker.NewDockerAuthorizer(
					docker.WithAuthClient(&tokens),
					docker.WithAuthCreds(creds),
					docker.WithAuthHeader(r.options.Headers),
					docker.WithAuthHeader(c.Header),
				)
			})
		}
		hosts[i] = h
	}
	return hosts
}

// allowed returns the hosts that may be asked. The last of them takes over what
// it means to be the last.
func allowed(hosts []*host, allow func(host string) bool) []*host {
	if allow == nil {
		return hosts
	}
	var kept []*host
	for _, h := range hosts {
		if allow(h.name()) {
			h.last = false
			kept = append(kept, h)
		}
	}
	if len(kept) > 0 {
		kept[len(kept)-1].last = true
	}
	return kept
}

func hostNames(hosts []docker.RegistryHost) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = (&host{RegistryHost: h}).name()
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
