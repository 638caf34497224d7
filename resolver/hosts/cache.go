// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/errdefs"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxSets bounds the registry names whose hosts are kept, of those that references alone
// name: tenants can name any number of them, and none of these has the set of one go that
// the operator has named.
const maxSets = 128

// Options say where the hosts of a registry are configured. The zero value asks
// each registry under its own name.
type Options struct {
	// Dirs are directories of hosts.toml trees. The first that has a directory
	// for the host, or _default, decides. Default: none.
	Dirs []string

	// Configure replaces Dirs. It is asked once for a registry, must make new
	// clients at each call, and must call the given function on each. Default:
	// nil, Dirs decide.
	Configure func(context.Context, config.UpdateClientFunc) docker.RegistryHosts

	// Named reports whether Configure has something for that very spelling of a name.
	// Default: nil, it has not.
	Named func(name string) bool

	// Watcher knows the last good hosts.toml of each of them, for when the newest
	// cannot be used. Default: nil, only sets in use stay as they were.
	Watcher *Watcher

	// Headers are those of the node for all hosts. Hosts that a host redirects to
	// are not shown them. Default: none.
	Headers http.Header
}

// Cache keeps the sets in use, by registry name, with their connections. Safe
// for concurrent use.
//
// It counts the users of a set itself: a shared.Map forgets a value with its
// last user, and a set stays for those to come, until its files change or there
// are too many.
type Cache struct {
	options Options
	dialer  dialer
	names   *lookups

	mu   sync.Mutex
	sets *simplelru.LRU[string, *Set] // nil = closed
}

// NewCache returns a Cache. The caller closes it.
func NewCache(options Options) *Cache {
	sets, _ := simplelru.NewLRU[string, *Set](math.MaxInt, nil) // see makeRoom; fails for sizes below 1 only
	c := &Cache{options: options, sets: sets}
	c.names = newLookups(net.DefaultResolver.LookupNetIP, &c.dialer)
	return c
}

// Change is how the sets have changed.
type Change struct {
	// Reconfigured says that the set takes the place of one that was configured
	// in another way. Problems of its hosts may be solved.
	Reconfigured bool

	// Retired are the sets that are of no use any more.
	Retired []*Set
}

// Acquire returns the hosts of a registry as they are configured now for that spelling of
// its name, and what that has changed. A configuration that cannot be used leaves its last good
// version in force. The error is a [*FileError] where none is known, and
// [ErrClosed] after Close. The caller releases the set.
func (c *Cache) Acquire(ctx context.Context, spelled string) (*Set, Change, error) {
	name, dir, err := c.place(spelled)
	if err != nil {
		return nil, Change{}, fmt.Errorf("hosts of %s: %w", spelled, err)
	}
	was, err := c.use(name)
	if err != nil {
		return nil, Change{}, err
	}
	next, err := c.next(ctx, name, dir, was)
	if err == nil && next == was {
		return was, Change{}, nil
	}
	if was != nil {
		c.Release(was)
	}
	if err != nil {
		return nil, Change{}, err
	}
	set, retired, err := c.publish(name, next)
	if err != nil {
		return nil, Change{}, err
	}
	c.closeUnused(retired)
	return set, Change{Reconfigured: was != nil && set == next, Retired: retired}, nil
}

// next returns the set that takes the place of was, nil for none: was itself, where
// nothing has changed.
func (c *Cache) next(ctx context.Context, name, dir string, was *Set) (*Set, error) {
	if was != nil && was.seen.Load().current(dir) {
		return was, nil
	}
	now, err := readState(name, dir)
	if err != nil {
		return c.lastGood(ctx, name, now, was, err)
	}
	if was != nil && was.seen.Load().same(now) {
		now.stamps = now.stamps.Following(was.seen.Load().stamps)
		was.seen.Store(now.seen())
		return was, nil
	}
	built, good, err := c.build(ctx, name, now)
	if err != nil {
		return c.lastGood(ctx, name, now, was, err)
	}
	c.options.Watcher.note(dir, good)
	return built, nil
}

// Release ends one use. The connections of a set that has been replaced end
// with its last use.
func (c *Cache) Release(s *Set) {
	c.mu.Lock()
	s.users--
	unused := s.users == 0 && s.retired.Load()
	c.mu.Unlock()
	if unused {
		s.closeIdle()
	}
}

// Close ends all connections, also those of sets in use, and takes all sets out
// of use. It returns them.
func (c *Cache) Close() (retired []*Set) {
	c.mu.Lock()
	if c.sets != nil {
		retired = c.sets.Values()
		c.sets = nil
	}
	for _, s := range retired {
		s.retired.Store(true)
	}
	c.mu.Unlock()
	c.closeUnused(retired)
	c.dialer.close()
	return retired
}

// Connections is how many connections there are, those that are being made
// included.
func (c *Cache) Connections() int { return c.dialer.count() }

// use returns the set of a name, nil for none, and counts one more use of it.
func (c *Cache) use(name string) (*Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		return nil, ErrClosed
	}
	s, ok := c.sets.Get(name)
	if !ok {
		return nil, nil
	}
	s.users++
	return s, nil
}

// publish puts a new set in its place and returns the one to use, which is
// another when somebody was faster, and the sets that are of no use any more.
func (c *Cache) publish(name string, s *Set) (current *Set, retired []*Set, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		return nil, nil, ErrClosed
	}
	if was, ok := c.sets.Get(name); ok {
		if was.seen.Load().same(s.seen.Load()) {
			was.users++
			return was, nil, nil
		}
		c.sets.Remove(name)
		was.replaced.Store(true)
		retired = append(retired, was)
	}
	if !s.named {
		retired = append(retired, c.makeRoom()...)
	}
	s.users++
	c.sets.Add(name, s)
	for _, old := range retired {
		old.retired.Store(true)
	}
	return s, retired, nil
}

// makeRoom takes out, where there are too many sets of names that the operator has not
// named, the one of these that was not used for longest.
func (c *Cache) makeRoom() (retired []*Set) {
	var others []string // the oldest first
	for _, name := range c.sets.Keys() {
		if s, _ := c.sets.Peek(name); !s.named {
			others = append(others, name)
		}
	}
	if len(others) < maxSets {
		return nil
	}
	oldest, _ := c.sets.Peek(others[0])
	c.sets.Remove(others[0])
	return []*Set{oldest}
}

// closeUnused ends the connections of retired sets that nobody uses.
func (c *Cache) closeUnused(retired []*Set) {
	for _, s := range retired {
		c.mu.Lock()
		unused := s.users == 0
		c.mu.Unlock()
		if unused {
			s.closeIdle()
		}
	}
}

// place returns the name by which a registry is asked, and the directory that configures its
// hosts, "" for none. A spelling counts where the operator has configured that very one. All
// others are the registry's one name: what a registry answers can hang on how it is called, so
// a reference must not choose that.
func (c *Cache) place(spelled string) (name, dir string, err error) {
	if c.options.Configure != nil {
		if c.options.Named != nil && c.options.Named(spelled) {
			return spelled, "", nil
		}
		return oneName(spelled), "", nil
	}
	dir, err = dirOf(c.options.Dirs, spelled)
	name = oneName(spelled)
	if err != nil || name == spelled || isOwn(dir) {
		return spelled, dir, err
	}
	dir, err = dirOf(c.options.Dirs, name)
	return name, dir, err
}

// dirOf returns the directory that configures a host, in the first of the roots
// that has one; "" if none does.
func dirOf(roots []string, name string) (string, error) {
	for _, root := range roots {
		dir, err := config.HostDirFromRoot(root)(name)
		if err == nil || !errdefs.IsNotFound(err) {
			return dir, err
		}
	}
	return "", nil
}

// readState is readHostDirState, whose error names the host.
func readState(name, dir string) (*hostDirState, error) {
	s, err := readHostDirState(dir)
	if err != nil && !errors.As(err, new(*FileError)) {
		err = fileError(dir, name, err)
	}
	return s, err
}
