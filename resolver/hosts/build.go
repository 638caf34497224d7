// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/pool"
)

// maxReads is how often a host directory is read again when it changes while
// it is read.
const maxReads = 3

// build makes the set of a host directory in that state, or a newer one. containerd
// takes a hosts.toml that does not parse for a directory of certificates, so it
// must read what has been found right. It returns the text of which the set is made, too.
func (c *Cache) build(ctx context.Context, name string, seen *hostDirState) (*Set, goodText, error) {
	for range maxReads {
		s, err := c.configure(ctx, name, seen, seen.dir)
		if err != nil {
			return nil, goodText{}, fileError(seen.dir, name, err)
		}
		number := c.options.Watcher.reading()
		again, err := readState(name, seen.dir)
		if err != nil {
			return nil, goodText{}, err
		}
		if again.same(seen) {
			s.seen.Store(again.seen())
			return s, goodText{again.text, number}, nil
		}
		seen = again
	}
	return nil, goodText{}, fileError(seen.dir, name, errors.New("the file changes while it is read"))
}

// configure makes the set of a host directory, as it is in a directory that may be
// a copy.
func (c *Cache) configure(ctx context.Context, name string, state *hostDirState, files string) (*Set, error) {
	b := builder{dialer: &c.dialer, names: c.names, named: isOwn(state.dir), files: state.version(), under: map[*http.Client]*http.Transport{}, pools: map[*http.Transport]*pool.Pool{}}
	configure := config.ConfigureHosts(ctx, config.HostOptions{
		HostDir:      func(string) (string, error) { return files, nil },
		UpdateClient: b.adopt,
	})
	if c.options.Configure != nil {
		b.each = true
		configure = c.options.Configure(ctx, b.adopt)
	}
	configured, err := configure(name)
	if err != nil {
		return nil, err
	}
	s := b.set(name, configured)
	s.keepSecretsHome(c.options.Headers)
	return s, nil
}

// defaultDir is the host directory of all names that have none of their own.
const defaultDir = "_default"

// isOwn reports whether a host directory is one for a very name.
func isOwn(dir string) bool { return dir != "" && filepath.Base(dir) != defaultDir }

// hostOf is the host that containerd asks for a name without configuration.
func hostOf(name string) string {
	if host, err := docker.DefaultHost(name); err == nil {
		return host
	}
	return name
}

// oneName is the name by which all spellings of a registry's name are asked. On loopback the
// port stays: containerd may ask by HTTP there, which has another port than HTTPS.
func oneName(spelled string) string {
	if name := registryname.Plain(spelled); docker.IsLocalhost(name) {
		return name
	}
	return registryname.Canonical(spelled)
}

// builder makes a set of what containerd configures.
type builder struct {
	dialer *dialer
	names  *lookups
	named  bool                             // there are files for this very name
	files  string                           // which ones, as they were; of any text where there are none
	each   bool                             // each client is one of its own, else they descend from the first
	under  map[*http.Client]*http.Transport // before containerd wraps it
	tuned  []*http.Transport
	pools  map[*http.Transport]*pool.Pool
}

// adopt is called for each client that containerd makes.
func (b *builder) adopt(client *http.Client) error {
	t, ok := client.Transport.(*http.Transport)
	if !ok {
		return nil
	}
	b.under[client] = t
	if slices.Contains(b.tuned, t) {
		return nil
	}
	switch dial := dialFunc(t.DialContext); {
	case dial == nil:
	case b.each, len(b.tuned) == 0:
		t.DialContext, t.Proxy = shorten(b.dialer.track(eachAddress(b.names, dial))), tellProxy(t.Proxy)
	case !shortened(t):
		t.DialContext = b.dialer.track(dial) // of hosts.toml, which has the last word
	}
	tune(t)
	b.tuned = append(b.tuned, t)
	return nil
}

func (b *builder) set(name string, configured []docker.RegistryHost) *Set {
	s := &Set{name: name, named: b.named, hosts: make([]Host, len(configured))}
	origin := originOf(name, configured)
	for i, c := range configured {
		h := Host{RegistryHost: c, Origin: origin(i), Base: http.DefaultTransport}
		h.Configured = b.named || registryname.Canonical(c.Host) != registryname.Canonical(hostOf(name))
		if c.Client == nil {
			h.Client = &http.Client{}
		} else if c.Client.Transport != nil {
			h.Base = c.Client.Transport
		}
		h.Identified, h.how = len(c.Header) > 0, b.how(c)
		if !h.Origin {
			h.beside = besideOrigin(c, configured, origin)
		}
		if t := b.under[c.Client]; t != nil {
			h.Identified = h.Identified || withCertificates(t)
			h.InClear = h.Base != http.RoundTripper(t) // containerd has wrapped it
			h.Base, h.Probe = b.pool(t), unshared(t)
			if h.InClear {
				h.Base, h.Probe = &httpFallback{base: h.Base, host: c.Host}, &httpFallback{base: h.Probe, host: c.Host}
			}
			if withCertificates(t) {
				h.away = b.pool(withoutCertificates(t))
			}
		}
		if h.Probe == nil {
			h.Probe = h.Base
		}
		s.hosts[i] = h
	}
	s.pools = slices.Collect(maps.Values(b.pools))
	return s
}

// how tells in which way a host is asked: the same text is the same way. The addresses of the
// API tell that where nothing else is set; what a host directory sets, the directory stands for, with what was
// in it: once that is put right, no name's trouble by what it was counts for others.
// It is "" for hosts that are asked as every host is that has no configuration.
func (b *builder) how(c docker.RegistryHost) string {
	t, h := b.under[c.Client], Host{RegistryHost: c}
	switch isSet := t != nil && !b.each && t != b.tuned[0]; {
	case isSet || len(c.Header) > 0:
		return h.Root() + " " + b.files
	case h.Root() == health.KeyOf(c.Scheme, c.Host).Host+"/v2/":
		return ""
	}
	return h.Root()
}

// pool returns the connections that are made as t makes them. Hosts with the same t share
// them.
func (b *builder) pool(t *http.Transport) *pool.Pool {
	p, ok := b.pools[t]
	if !ok {
		p = pool.New(t)
		b.pools[t] = p
	}
	return p
}
