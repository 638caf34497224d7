// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
)

// maxHostSets bounds the registry names whose hosts are kept: tenants can name
// any number of them.
const maxHostSets = 128

// hostSet is the hosts of one registry name as they were configured at one
// time: what its sessions share. It does not change.
type hostSet struct {
	hosts      []sharedHost
	transports []*http.Transport
	seen       atomic.Pointer[snapshot] // what it is made of

	users   int         // guarded by the lock of hostSets
	retired atomic.Bool // another has taken its place
}

// sharedHost is one host of a set.
type sharedHost struct {
	docker.RegistryHost                   // of containerd; its authorizer is not used
	base                http.RoundTripper // containerd's, perhaps with time-outs of its own
	origin              bool
}

// release ends one use. The connections of a set that has been replaced end
// with its last use.
func (r *Resolver) release(s *hostSet) {
	r.sets.mu.Lock()
	s.users--
	idle := s.users == 0 && s.retired.Load()
	r.sets.mu.Unlock()
	if idle {
		s.closeIdle()
	}
}

func (s *hostSet) closeIdle() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// hostSets are the sets in use, by registry name. Safe for concurrent use.
type hostSets struct {
	mu   sync.Mutex
	sets *lru[string, *hostSet] // nil = closed
}

func newHostSets() *hostSets { return &hostSets{sets: newLRU[string, *hostSet](maxHostSets)} }

// use returns the set of a name, nil for none, and counts one more use of it.
func (h *hostSets) use(name string) (*hostSet, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sets == nil {
		return nil, errClosed
	}
	s, ok := h.sets.get(name)
	if !ok {
		return nil, nil
	}
	s.users++
	return s, nil
}

// publish puts a new set in its place and returns the one to use, which is
// another when somebody was faster, and the sets that are of no use any more.
func (h *hostSets) publish(name string, s *hostSet) (current *hostSet, retired []*hostSet, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sets == nil {
		return nil, nil, errClosed
	}
	if was, ok := h.sets.get(name); ok {
		if was.seen.Load().same(s.seen.Load()) {
			was.users++
			return was, nil, nil
		}
		h.sets.remove(name)
		retired = append(retired, was)
	}
	s.users++
	if dropped, full := h.sets.put(name, s); full {
		retired = append(retired, dropped)
	}
	for _, old := range retired {
		old.retired.Store(true)
	}
	return s, retired, nil
}

// close takes all sets out of use.
func (h *hostSets) close() (retired []*hostSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sets == nil {
		return nil
	}
	retired = h.sets.removeIf(func(_ string, s *hostSet) bool { s.retired.Store(true); return true })
	h.sets = nil
	return retired
}

// hostSet returns the hosts of a name as they are configured now. The caller
// releases it.
func (r *Resolver) hostSet(ctx context.Context, name string) (*hostSet, error) {
	dir, err := r.hostDir(name)
	if err != nil {
		return nil, fmt.Errorf("hosts of %s: %w", name, err)
	}
	was, err := r.sets.use(name)
	if err != nil {
		return nil, err
	}
	if was != nil && was.seen.Load().current(dir) {
		return was, nil
	}
	now, err := r.snapshot(name, dir)
	if err == nil && was != nil && was.seen.Load().same(now) {
		was.seen.Store(now)
		return was, nil
	}
	if was != nil {
		r.release(was)
	}
	if err != nil {
		return nil, err
	}
	built, err := r.build(ctx, name, now)
	if err != nil {
		return nil, err
	}
	set, retired, err := r.sets.publish(name, built)
	if err != nil {
		return nil, err
	}
	if was != nil && set == built {
		// What was wrong with a host may be right now.
		for _, h := range built.hosts {
			r.breakers.forget(h.key())
		}
	}
	r.retire(retired)
	return set, nil
}

// retire forgets what belongs to sets that are of no use any more. Their
// sessions may go on with them.
func (r *Resolver) retire(sets []*hostSet) {
	for _, s := range sets {
		r.tokens.forget(s)
		r.sets.mu.Lock()
		idle := s.users == 0
		r.sets.mu.Unlock()
		if idle {
			s.closeIdle()
		}
	}
}

// hostDir returns the directory that configures a host, "" if none does.
func (r *Resolver) hostDir(name string) (string, error) {
	if r.options.Hosts != nil {
		return "", nil
	}
	for _, root := range r.options.HostDirs {
		dir, err := config.HostDirFromRoot(root)(name)
		if err == nil || !errdefs.IsNotFound(err) {
			return dir, err
		}
	}
	return "", nil
}

func (r *Resolver) snapshot(name, dir string) (*snapshot, error) {
	s, err := readSnapshot(dir)
	if err != nil && !errors.As(err, new(*HostsFileError)) {
		err = hostsError(dir, name, err)
	}
	return s, err
}

// maxReads is how often a host directory is read again when it changes while
// it is read.
const maxReads = 3

// build makes the set that a snapshot describes, or a newer one. containerd
// takes a hosts.toml that does not parse for a directory of certificates, so it
// must read what has been found right.
func (r *Resolver) build(ctx context.Context, name string, seen *snapshot) (*hostSet, error) {
	dir := seen.dir
	for range maxReads {
		b := builder{dialer: &r.dialer, under: map[*http.Client]*http.Transport{}}
		configure := config.ConfigureHosts(ctx, config.HostOptions{
			HostDir:      func(string) (string, error) { return dir, nil },
			UpdateClient: b.adopt,
		})
		if r.options.Hosts != nil {
			b.each = true
			configure = r.options.Hosts(ctx, nil, b.adopt)
		}
		configured, err := configure(name)
		if err != nil {
			return nil, hostsError(dir, name, err)
		}
		again, err := r.snapshot(name, dir)
		if err != nil {
			return nil, err
		}
		if again.same(seen) {
			s := b.set(name, configured) //nolint:contextcheck // it dials nothing
			s.seen.Store(again)
			return s, nil
		}
		seen = again
	}
	return nil, hostsError(dir, name, errors.New("the file changes while it is read"))
}

// builder makes a set of what containerd configures.
type builder struct {
	dialer *dialer
	each   bool                             // each client is one of its own, else they descend from the first
	under  map[*http.Client]*http.Transport // before containerd wraps it
	tuned  []*http.Transport
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
		t.DialContext = hurry(b.dialer.track(dial))
	case !hurries(t):
		t.DialContext = b.dialer.track(dial) // of hosts.toml, which has the last word
	}
	tune(t)
	b.tuned = append(b.tuned, t)
	return nil
}

func (b *builder) set(name string, configured []docker.RegistryHost) *hostSet {
	s := &hostSet{hosts: make([]sharedHost, len(configured))}
	origin := originOf(name, configured)
	for i, c := range configured {
		h := sharedHost{RegistryHost: c, origin: origin(i), base: http.DefaultTransport}
		if c.Client == nil {
			h.Client = &http.Client{}
		} else if c.Client.Transport != nil {
			h.base = c.Client.Transport
		}
		if t := b.under[c.Client]; t != nil {
			wrapped := h.base != http.RoundTripper(t)
			if i < len(configured)-1 && !wrapped && hurries(t) {
				t = t.Clone()
				t.TLSHandshakeTimeout = hurriedHandshake
			}
			h.base = t
			if wrapped {
				h.base = &fallback{base: t}
			}
			if !slices.Contains(s.transports, t) {
				s.transports = append(s.transports, t)
			}
		}
		s.hosts[i] = h
	}
	return s
}
