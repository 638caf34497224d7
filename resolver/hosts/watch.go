// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"

	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// pollInterval is how often the host directories are looked at.
const pollInterval = time.Second

// WatchOptions say what to watch.
type WatchOptions struct {
	// Dirs are directories of hosts.toml trees, as those of [Options].
	Dirs []string
	// Archive is the path of the file that keeps the last good hosts.toml of each
	// host directory. It has a directory of its own. Default: "", they are kept in
	// memory only.
	Archive string
	// State is a directory of its own for copies of last good ones while containerd reads them.
	// In memory it is of use on a full disk, too. Default: "", they are made beside the archive.
	State string
	// Reloaded is called by Watch, and after each later change, with whether all of
	// the newest files are in force. Default: nil, nobody is told.
	Reloaded func(ok bool)
}

// Watcher looks at all host directories, whether somebody asks for their registries
// or not: it tells of mistakes in them, and keeps the last good hosts.toml of each,
// also over a restart. They are as many as the operator has made: no tenant adds to
// them. Safe for concurrent use.
type Watcher struct {
	options WatchOptions
	archive keptfiles.Archive                   // of the background work, once that has begun
	dirs    atomic.Pointer[map[string]*watched] // by path; neither map nor values change
	stop    chan struct{}                       // closed by Close
	stopped chan struct{}                       // closed when the background work has ended

	readings atomic.Uint64 // that have begun

	mu    sync.Mutex
	noted map[string]goodText // that requests have found since the last look, by directory
}

// goodText is the text of a hosts.toml that can be used, and the number of the reading
// that found it: a later one has a higher number.
type goodText struct {
	text    []byte
	reading uint64
}

// watched is a host directory as it was last read.
type watched struct {
	state  *hostDirState // its stamps, and, without a problem, its text
	good   goodText      // the last one; empty = there is none
	err    error         // why the newest files cannot be used; nil = they can
	warned []byte        // the text whose unknown keys were told
}

// Watch looks at the directories for the first time. The caller closes the Watcher.
func Watch(o WatchOptions) *Watcher {
	if o.Reloaded == nil {
		o.Reloaded = func(bool) {}
	}
	w := &Watcher{options: o, archive: keptfiles.New(o.Archive), noted: map[string]goodText{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	if o.State != "" {
		_ = os.RemoveAll(o.State) // copies that a kill has left
	}
	kept, err := w.archive.Load()
	if err != nil && !errors.Is(err, keptfiles.ErrNothing) {
		prefixlog.L().WithError(err).Warn("the last good hosts.toml files that were kept cannot be read: a mistake in one of them now fails the requests of its registries")
	}
	first := map[string]*watched{}
	for _, f := range kept.Files {
		first[filepath.Dir(f.Path)] = &watched{state: &hostDirState{}, good: goodText{text: f.Data}}
	}
	w.dirs.Store(&first)
	w.look()
	o.Reloaded(len(w.Problems()) == 0)
	go w.work()
	return w
}

// Close ends the background work, and returns when it has ended. The error is
// always nil.
func (w *Watcher) Close() error {
	close(w.stop)
	<-w.stopped
	return nil
}

// LastGood returns the text of the last good hosts.toml of a directory; false where
// none is known.
func (w *Watcher) LastGood(dir string) (text []byte, ok bool) {
	w.mu.Lock()
	good := w.noted[dir]
	w.mu.Unlock()
	if d := (*w.dirs.Load())[dir]; d != nil {
		good = d.good.orLater(good)
	}
	return good.text, len(good.text) > 0
}

// orLater returns the one of two that was read later.
func (g goodText) orLater(other goodText) goodText {
	if other.reading > g.reading {
		return other
	}
	return g
}

// reading returns the number of a reading that begins now. A nil Watcher has none.
func (w *Watcher) reading() uint64 {
	if w == nil {
		return 0
	}
	return w.readings.Add(1)
}

// note takes in the text of a hosts.toml that a request has found good: a mistake may
// follow before the next look. A nil Watcher takes none.
func (w *Watcher) note(dir string, good goodText) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted[dir] = w.noted[dir].orLater(good)
}

// notedSoFar returns what was noted, which counts until it is forgotten.
func (w *Watcher) notedSoFar() map[string]goodText {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.noted)
}

// forget drops what was noted, but for what came later.
func (w *Watcher) forget(noted map[string]goodText) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.noted, func(dir string, good goodText) bool {
		seen, ok := noted[dir]
		return ok && seen.reading == good.reading
	})
}

// Problems lists the host directories whose newest files are not in force, by path.
func (w *Watcher) Problems() (problems []Problem) {
	dirs := *w.dirs.Load()
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if p, ok := w.problem(dir, dirs[dir]); ok {
			problems = append(problems, p)
		}
	}
	return problems
}

func (w *Watcher) work() {
	defer close(w.stopped)
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if w.look() {
				w.options.Reloaded(len(w.Problems()) == 0)
			}
		case <-w.stop:
			return
		}
	}
}

// look reads the directories that have changed, tells of what is wrong in them, and
// keeps what is good. It reports whether anything has changed.
func (w *Watcher) look() (changed bool) {
	was, now, noted := *w.dirs.Load(), map[string]*watched{}, w.notedSoFar()
	for _, root := range w.options.Dirs {
		names, err := DirsIn(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			maps.Copy(now, under(was, root)) // it may be there all the same
			for dir := range under(noted, root) {
				delete(noted, dir) // not looked at: it counts until the next look
			}
		}
		for _, name := range names {
			dir := filepath.Join(root, name)
			before := was[dir]
			good, isNoted := noted[dir]
			if before != nil && before.state.current(dir) && (before.err == nil || !isNoted) {
				now[dir] = before
				continue
			}
			now[dir] = w.read(dir, before)
			if now[dir].err != nil {
				now[dir].good = now[dir].good.orLater(good)
			}
			w.tell(dir, now[dir], before)
			changed = true
		}
	}
	changed = changed || len(now) != len(was)
	w.dirs.Store(&now)
	w.forget(noted)
	w.keep(now)
	return changed
}

// DirsIn lists the names of the directories of a tree that containerd may look into.
func DirsIn(root string) (names []string, err error) {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // no registry has such a name; a mounted ConfigMap has
		}
		if info, err := os.Stat(filepath.Join(root, e.Name())); err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func under[V any](dirs map[string]V, root string) map[string]V {
	found := maps.Clone(dirs)
	maps.DeleteFunc(found, func(dir string, _ V) bool { return filepath.Dir(dir) != filepath.Clean(root) })
	return found
}

// read reads a directory that was as before, nil for not known.
func (w *Watcher) read(dir string, before *watched) *watched {
	now, number := &watched{}, w.reading()
	now.state, now.err = usable(dir)
	for try := 1; try < maxReads && !now.state.stamps.Same(); try++ {
		number = w.reading()
		now.state, now.err = usable(dir)
	}
	if before != nil {
		now.good, now.warned = before.good, before.warned
		now.state.stamps = now.state.stamps.Following(before.state.stamps)
	}
	if now.err == nil {
		now.good = goodText{now.state.text, number}
	}
	return now
}

// usable reads a host directory, and asks containerd whether its certificates can be
// used. The error is a *FileError.
func usable(dir string) (*hostDirState, error) {
	name := filepath.Base(dir) // any would do
	s, err := readHostDirState(dir)
	if err == nil {
		err = tryConfigure(name, dir)
	}
	if err != nil && !errors.As(err, new(*FileError)) {
		err = fileError(dir, name, err)
	}
	return s, err
}

// tryConfigure returns why containerd cannot use a host directory.
func tryConfigure(name, dir string) error {
	configure := config.ConfigureHosts(new(redact.Redactor).WithQuietLogger(context.Background()), config.HostOptions{
		HostDir: func(string) (string, error) { return dir, nil },
	})
	_, err := configure(name)
	return err
}

// keep writes the good files to the archive, unless they are there.
func (w *Watcher) keep(dirs map[string]*watched) {
	var files []keptfiles.File
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if good := dirs[dir].good.text; len(good) > 0 {
			files = append(files, keptfiles.File{Path: filepath.Join(dir, fileName), Data: good})
		}
	}
	if err := w.archive.Keep(files, keptfiles.SumOf(files)); err != nil {
		prefixlog.L().WithError(err).Warn("the last good hosts.toml files are not kept: a restart with a mistake in one of them goes back to an older one, or fails the requests of its registries")
	}
}
