// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// watching is a tree of hosts.toml files, and what is seen of it.
type watching struct {
	*Watcher
	t       *testing.T
	root    string
	archive string
	state   string
	healthy atomic.Bool
	log     logged
}

// newWatching makes an empty tree. To be called in a bubble.
func newWatching(t *testing.T) *watching {
	t.Helper()
	root := t.TempDir()
	w := &watching{t: t, root: filepath.Join(root, "certs.d"), archive: filepath.Join(root, "hosts", "last-good.tar.gz"), state: filepath.Join(root, "state")}
	was := log.L.Logger.Out
	log.L.Logger.SetOutput(&w.log)
	t.Cleanup(func() { log.L.Logger.SetOutput(was) })
	return w
}

func (w *watching) start() {
	w.Watcher = Watch(WatchOptions{Dirs: []string{w.root}, Archive: w.archive, State: w.state, Reloaded: w.healthy.Store})
}

func (w *watching) restart() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Error(err)
	}
	w.start()
}

// next waits for the next look, and returns what was logged meanwhile.
func (w *watching) next() string {
	before := len(w.log.String())
	time.Sleep(pollInterval)
	synctest.Wait()
	return w.log.String()[before:]
}

func (w *watching) dir() string { return filepath.Join(w.root, registryName) }

// want holds what is known of the directory.
func (w *watching) want(good string, problems int) {
	w.t.Helper()
	text, ok := w.LastGood(w.dir())
	if string(text) != good || ok != (good != "") {
		w.t.Errorf("the last good text is %q, %v; want %q", text, ok, good)
	}
	if got := w.Problems(); len(got) != problems || w.healthy.Load() != (problems == 0) {
		w.t.Errorf("healthy is %v, problems are %v, want %d", w.healthy.Load(), got, problems)
	}
}

// A file is known without anybody asking for its registry, over restarts too.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		w.start() // there is no directory yet
		w.want("", 0)
		write(t, w.root, registryName, chain("https://a.test"))
		w.next()
		w.want(chain("https://a.test"), 0)
		write(t, w.root, registryName, "server = 7\n")
		if got := w.next(); strings.Count(got, "level=error") != 1 || !strings.Contains(got, "hosts.toml:1") || !strings.Contains(got, "its last good version is used instead") {
			t.Errorf("logged %s", got)
		}
		w.want(chain("https://a.test"), 1)
		if p := w.Problems()[0]; !p.LastGood || p.Err.File != filepath.Join(w.dir(), fileName) || p.Err.Line != 1 {
			t.Errorf("got %+v", p)
		}
		if got := w.next() + w.next(); got != "" {
			t.Errorf("logged again: %s", got)
		}
		w.restart()
		w.want(chain("https://a.test"), 1)
		if info, err := os.Stat(w.archive); err != nil || info.Mode() != 0o600 {
			t.Errorf("the archive has mode %v, %v", info.Mode(), err)
		}
		write(t, w.root, registryName, chain("https://b.test"))
		if got := w.next(); !strings.Contains(got, "is taken again") {
			t.Errorf("logged %s", got)
		}
		w.want(chain("https://b.test"), 0)

		// Neither an empty file nor none is a mistake, and none outlasts them.
		for _, change := range []func(){
			func() { write(t, w.root, registryName, "") },
			func() { _ = os.Remove(filepath.Join(w.dir(), fileName)) },
			func() { _ = os.RemoveAll(w.root) },
		} {
			change()
			w.next()
			w.want("", 0)
		}
		write(t, w.root, registryName, "[host")
		w.restart()
		w.want("", 1)
		if got := w.log.String(); !strings.Contains(got, "no good version of it was kept") {
			t.Errorf("logged %s", got)
		}
		_ = w.Close()
	})
}

// A certificate that cannot be used is a mistake like one in the text.
func TestWatchCertificates(t *testing.T) {
	secure := resolvertest.New(t, resolvertest.WithTLS())
	pem := secure.CAPEM()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		ca := filepath.Join(t.TempDir(), "ca.pem") // elsewhere
		text := fmt.Sprintf("ca = %q\n", ca)
		write(t, w.root, registryName, text)
		w.start()
		defer w.Close()
		w.want("", 1)
		put(t, ca, pem)
		w.next()
		w.want(text, 0)
		put(t, ca, []byte("garbage"))
		if got := w.next(); !strings.Contains(got, "ca.pem") {
			t.Errorf("logged %s", got)
		}
		w.want(text, 1)
		if err := errors.Join(os.Remove(ca), os.Mkdir(ca, 0o700)); err != nil {
			t.Fatal(err)
		}
		w.next()
		w.want(text, 1)
		time.Sleep(filestamp.SettleTime + pollInterval) // all is known of it
		if err := os.Remove(ca); err != nil {
			t.Fatal(err)
		}
		put(t, ca, pem)
		w.next()
		w.want(text, 0)
	})
}

// Unknown keys are named once for each version of a file, not without an end, and
// without credentials.
func TestUnknownHostsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		text := "[host.'https://user:secret@m.test']\ncapability = ['pull']\nskip-verify = true\n"
		write(t, w.root, registryName, text)
		w.start()
		defer w.Close()
		got := w.log.String()
		for _, word := range []string{"hosts.toml:2", "capability", "did you mean capabilities?", "hosts.toml:3", "did you mean skip_verify?"} {
			if !strings.Contains(got, word) {
				t.Errorf("%q is not in the log: %s", word, got)
			}
		}
		if strings.Contains(got, "secret") || strings.Count(got, "level=warning") != 2 {
			t.Errorf("logged %s", got)
		}
		write(t, w.root, registryName, text) // the same version
		if got := w.next(); got != "" {
			t.Errorf("logged again: %s", got)
		}
		var many strings.Builder
		for i := range 100 {
			fmt.Fprintf(&many, "key%d = 1\n", i)
		}
		write(t, w.root, registryName, many.String())
		if n := strings.Count(w.next(), "level=warning"); n != maxUnknown+1 {
			t.Errorf("%d lines", n)
		}
	})
}

// An archive that cannot be read is told, and is no reason not to start.
func TestDamagedHostsArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		put(t, w.archive, []byte("garbage"))
		for _, place := range []string{w.state, filepath.Dir(w.archive)} {
			put(t, filepath.Join(place, "hosts-1", "hosts.toml"), []byte("of a copy that was cut short"))
		}
		write(t, w.root, registryName, chain("https://a.test"))
		w.start()
		if got := w.log.String(); !strings.Contains(got, "level=warning") {
			t.Errorf("logged %s", got)
		}
		if entries, err := os.ReadDir(filepath.Dir(w.archive)); err != nil || len(entries) != 1 {
			t.Errorf("left over: %v, %v", entries, err)
		}
		if entries, _ := os.ReadDir(w.state); len(entries) > 0 {
			t.Errorf("left over: %v", entries)
		}
		write(t, w.root, registryName, "[host")
		w.restart()
		w.want(chain("https://a.test"), 1)
		_ = w.Close()
	})
}

// A version that only a request has seen is the last good one, too, and one that was
// removed is none.
func TestGoodBetweenLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		write(t, w.root, registryName, chain("https://a.test"))
		w.start()
		defer w.Close()
		c := newCache(t, Options{Dirs: []string{w.root}, Watcher: w.Watcher})
		use(t, c, registryName)
		write(t, w.root, registryName, chain("https://b.test"))
		set, _ := use(t, c, registryName)
		write(t, w.root, registryName, "[host")
		for range 3 {
			if again, _ := use(t, c, registryName); again != set {
				t.Errorf("got %s", names(again))
			}
			w.next()
		}
		w.want(chain("https://b.test"), 1)

		if err := os.RemoveAll(w.dir()); err != nil {
			t.Fatal(err)
		}
		w.next()
		write(t, w.root, registryName, "[host")
		if _, _, err := acquire(t, c, registryName); err == nil {
			t.Error("hosts that were removed are in force")
		}
	})
}

// A look that cannot list the tree, as where files have run out, forgets nothing that a request has seen.
func TestGoodBeforeALookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		w.start()
		defer w.Close()
		write(t, w.root, registryName, chain("https://a.test"))
		use(t, newCache(t, Options{Dirs: []string{w.root}, Watcher: w.Watcher}), registryName)
		write(t, w.root, registryName, "[host")
		away := w.root + ".away"
		if err := errors.Join(os.Rename(w.root, away), os.WriteFile(w.root, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		w.next()
		w.want(chain("https://a.test"), 0) // nobody has seen the mistake
		if err := errors.Join(os.Remove(w.root), os.Rename(away, w.root)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w.next()
			w.want(chain("https://a.test"), 1)
		}
	})
}
