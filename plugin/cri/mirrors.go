// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// MirrorHosts gives the hosts of CRI's deprecated registry.mirrors, which
// containerd still honours when there is no config_path: the endpoints of the
// registry (or of "*") in their order, and then the registry itself.
func (c Config) MirrorHosts(_ context.Context, credentials resolver.Credentials, update config.UpdateClientFunc) docker.RegistryHosts {
	return func(registry string) ([]docker.RegistryHost, error) {
		endpoints, err := c.endpoints(registry)
		if err != nil {
			return nil, err
		}
		hosts := make([]docker.RegistryHost, 0, len(endpoints))
		for _, u := range endpoints {
			transport := docker.DefaultHTTPTransport(nil)
			if docker.IsLocalhost(registry) && u.Scheme == "http" {
				// As containerd has it: what listens on loopback is not verified.
				transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // containerd's behaviour
			}
			client := &http.Client{Transport: transport}
			if update != nil {
				if err := update(client); err != nil {
					return nil, fmt.Errorf("update the client for %s: %w", u.Host, err)
				}
			}
			path := u.Path
			if path == "" {
				path = "/v2"
			}
			hosts = append(hosts, docker.RegistryHost{
				Client: client,
				Authorizer: docker.NewDockerAuthorizer(
					docker.WithAuthClient(client),
					docker.WithAuthCreds(credentials),
					docker.WithAuthHeader(c.Headers),
				),
				Host:         u.Host,
				Scheme:       u.Scheme,
				Path:         path,
				Capabilities: docker.HostCapabilityResolve | docker.HostCapabilityPull | docker.HostCapabilityReferrers,
			})
		}
		return hosts, nil
	}
}

// HasMirrors reports whether registry.mirrors has that very spelling of a registry's name.
func (c Config) HasMirrors(registry string) bool {
	_, ok := c.Mirrors[registry]
	return ok
}

// endpoints lists where a registry can be reached. The registry itself comes
// last, unless it is among its own mirrors.
func (c Config) endpoints(registry string) ([]*url.URL, error) {
	mirrors, ok := c.Mirrors[registry]
	if !ok {
		mirrors = c.Mirrors["*"]
	}
	urls := make([]*url.URL, 0, len(mirrors)+1)
	listed := false
	for _, endpoint := range mirrors {
		u, err := parseEndpoint(endpoint)
		if err != nil {
			return nil, fmt.Errorf("endpoint %q of registry mirror %q: %w", redact.RawURL(endpoint), registry, err)
		}
		listed = listed || u.Host == registry
		urls = append(urls, u)
	}
	if listed {
		return urls, nil
	}
	own, err := docker.DefaultHost(registry)
	if err != nil {
		return nil, err
	}
	u, err := parseEndpoint(own)
	if err != nil {
		return nil, fmt.Errorf("registry %q: %w", registry, err)
	}
	return append(urls, u), nil
}

// errNoEndpoint stands for errors of net/url, which quote what can be a password.
var errNoEndpoint = errors.New("must be a URL such as \"https://mirror.example.com\"")

// parseEndpoint adds the scheme where there is none: http on loopback. A host is text: metrics and labels
// take no other.
func parseEndpoint(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		u, err := url.Parse("any://" + endpoint)
		if err != nil {
			return nil, errNoEndpoint
		}
		scheme := "https"
		if docker.IsLocalhost(u.Host) {
			scheme = "http"
		}
		endpoint = scheme + "://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || !utf8.ValidString(u.Host) {
		return nil, errNoEndpoint
	}
	return u, nil
}
