// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A request that has read a version before another one was found good brings no older one
// back, neither against a look nor against another request.
func TestOlderReadingIsNotTheLastGood(t *testing.T) {
	older, newer := chain("https://older.test"), chain("https://newer.test")
	for _, byRequest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatching(t)
			write(t, w.root, registryName, older)
			w.start()
			defer func() { _ = w.Close() }()
			late := goodText{[]byte(older), w.reading()} // of a request that has yet to say so
			write(t, w.root, registryName, newer)
			if byRequest {
				w.note(w.dir(), goodText{[]byte(newer), w.reading()})
			} else {
				w.next()
			}
			w.note(w.dir(), late)
			write(t, w.root, registryName, "[host")
			w.want(newer, 0)
			w.next()
			w.want(newer, 1)
		})
	}
}

// A set that was made of a newer version than was read before is noted with that.
func TestVersionOfASetIsNoted(t *testing.T) {
	root := hostsDir(t, chain("https://older.test"))
	w := Watch(WatchOptions{Dirs: []string{root}})
	defer func() { _ = w.Close() }()
	c := newCache(t, Options{Dirs: []string{root}, Watcher: w})
	seen, err := readState(registryName, filepath.Join(root, registryName))
	if err != nil {
		t.Fatal(err)
	}
	newer := chain("https://newer.test")
	write(t, root, registryName, newer)
	set, good, err := c.build(t.Context(), registryName, seen)
	if err != nil || names(set) != "newer.test" || string(good.text) != newer {
		t.Errorf("%v: the set of %s is noted as %q", err, names(set), good.text)
	}
}

// The copy of a last good version finds its certificates from a directory that is not named
// by its whole path.
func TestLastGoodOfARelativeDirectory(t *testing.T) {
	secure := resolvertest.New(t, resolvertest.WithTLS())
	t.Chdir(t.TempDir())
	const root = "certs.d"
	dir := filepath.Join(root, registryName)
	write(t, root, registryName, "[host")
	put(t, filepath.Join(dir, "a.pem"), secure.CAPEM())
	lastGood := map[string]*watched{dir: {good: goodText{text: []byte("server = 'https://a.test'\nca = 'a.pem'\n")}}}
	w := &Watcher{noted: map[string]goodText{}}
	w.dirs.Store(&lastGood)
	set, _, err := acquire(t, newCache(t, Options{Dirs: []string{root}, Watcher: w}), registryName)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(set); got != "a.test" {
		t.Errorf("got %s", got)
	}
}
