// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosts knows which hosts hosts.toml gives a registry name, and keeps
// what containerd makes anew for each pull: their connections outlive it, as long
// as the files do not change.
package hosts

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// Host is one registry host as containerd configures it: a plain value that
// sessions share.
type Host struct {
	docker.RegistryHost // its authorizer is not used, but nil where none is wanted

	Base   http.RoundTripper // containerd's, perhaps with time-outs of its own; never nil
	Probe  http.RoundTripper // the same, with a new connection for each request; never nil
	away   http.RoundTripper // the same, without client certificates; nil where there are none
	Origin bool              // it is the registry that the name says

	// Configured says that the operator has named the host. What a reference
	// alone names is not configured, neither by _default nor by nothing.
	Configured bool

	// Identified says that the node itself shows who it is, by a header or a client
	// certificate of the configuration: an answer is not one to anybody.
	Identified bool

	// InClear says that containerd asks it in clear where it has no TLS, though its Scheme is https: http://
	// of its host[:port] is its own address, too.
	InClear bool

	how    string // part of its key: see health.Key
	beside string // behind its host[:port]: see By
}

// By is the host as its words and refusals are noted: host[:port]. A mirror at the address of the
// registry that the name says has its path behind that, or it would pass for the registry: no
// host[:port] has a slash. The path is escaped, fit for labels.
func (h Host) By() string { return h.Host + h.beside }

// Key is the key of the host's health.
func (h Host) Key() health.Key {
	key := health.KeyOf(h.Scheme, h.Host)
	key.How = h.how
	return key
}

// Elsewhere is Base for requests that are not the host's, and do not follow one of its:
// it shows no client certificates.
func (h Host) Elsewhere() http.RoundTripper {
	if h.away != nil {
		return h.away
	}
	return h.Base
}

// Root is the URL of the host's API.
func (h Host) Root() string { return h.Scheme + "://" + h.Host + h.Path + "/" }

// API is the URL of the root of the API (OCI distribution spec, "Determining Support"), which says who gives tokens: that of [Host.Root], or
// above it where the host is configured with a project, as https://host/v2/project by override_path.
func (h Host) API() string {
	above, _, isAPI := strings.Cut(h.Path+"/", "/v2/")
	if !isAPI {
		return h.Root()
	}
	return h.Scheme + "://" + h.Host + above + "/v2/"
}

// Name is the host as references spell it: docker.io, not registry-1.docker.io.
func (h Host) Name() string {
	if name := registryname.Canonical(h.Host); name == "docker.io" {
		return name
	}
	return h.Host
}

// Reference is what the host calls the image of spec. A part of its path
// behind the API's root (https://host/v2/project with override_path) belongs to
// the repository.
func (h Host) Reference(spec reference.Spec) string {
	_, project, _ := strings.Cut(h.Path+"/", "/v2/")
	repository := strings.TrimPrefix(spec.Locator, spec.Hostname()+"/")
	return reference.Spec{Locator: path.Join(h.Name(), project, repository), Object: spec.Object}.String()
}

// originOf tells which hosts are the registry that the name says: those that
// are called so, or else the last one, which is the server of hosts.toml.
func originOf(name string, hosts []docker.RegistryHost) func(i int) bool {
	own := registryname.Canonical(name)
	named := func(h docker.RegistryHost) bool { return registryname.Canonical(h.Host) == own }
	if slices.ContainsFunc(hosts, named) {
		return func(i int) bool { return named(hosts[i]) }
	}
	return func(i int) bool { return i == len(hosts)-1 }
}

// maxBeside bounds the bytes of a path that is noted. The hash of a longer one is.
const maxBeside = 128

// besideOrigin returns what is noted of a mirror behind its host[:port]; "" where that is not the
// address of the origin, or where it is the origin's very URL, which hosts.toml has twice then.
func besideOrigin(mirror docker.RegistryHost, hosts []docker.RegistryHost, origin func(i int) bool) string {
	address := registryname.Canonical(mirror.Host)
	for i, h := range hosts {
		if !origin(i) || registryname.Canonical(h.Host) != address {
			continue
		}
		if h.Scheme == mirror.Scheme && h.Path == mirror.Path {
			return ""
		}
		u := url.URL{Path: "/" + strings.TrimPrefix(mirror.Path, "/")}
		text := strings.ReplaceAll(u.EscapedPath(), ",", "%2C")
		if len(text) > maxBeside {
			return "/" + digest.FromString(text).Encoded()
		}
		return text
	}
	return ""
}
