// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pullwarden/pullwarden/internal/durable"
)

// The copy is for root alone: values of headers are secrets.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// lastGood returns the set of a host directory that is as now, and cannot be used for
// that reason: one of its last good hosts.toml, with the certificates as they are now, or
// else was, with those that it has, if that is of the same text. Otherwise the error is
// the reason. That there was no hosts.toml is no version of one.
func (c *Cache) lastGood(ctx context.Context, name string, now *hostDirState, was *Set, reason error) (*Set, error) {
	if !errors.As(reason, new(*FileError)) {
		return nil, reason
	}
	var seen hostDirState
	if was != nil {
		seen = *was.seen.Load()
	}
	sameDir := was != nil && seen.dir == now.dir
	unchanged := sameDir && seen.ofText == now.ofText // then it is for a certificate
	usable := unchanged || sameDir && seen.ofText != sha256.Sum256(nil)
	if c.options.Watcher != nil {
		text, ok := c.options.Watcher.LastGood(now.dir)
		state, err := stateOf(now.dir, text)
		switch {
		case !ok || err != nil:
		case was != nil && seen.same(state):
			return was, nil
		default:
			if s, err := c.buildCopy(ctx, name, state); err == nil {
				return s, nil
			}
		}
		usable = unchanged || usable && seen.ofText == sha256.Sum256(text)
	}
	if !usable {
		return nil, reason
	}
	return was, nil
}

// buildCopy makes the set of a state that is no longer in its directory. Its stamps are
// never current, so the directory itself is read at each use.
func (c *Cache) buildCopy(ctx context.Context, name string, state *hostDirState) (s *Set, err error) {
	err = c.options.Watcher.withCopy(state, func(dir string) (err error) {
		s, err = c.configure(ctx, name, state, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.seen.Store(&hostDirState{dir: state.dir, sum: state.sum, ofText: state.ofText})
	return s, nil
}

// errNoCopy says that no copy could be made, as on a full disk.
var errNoCopy = errors.New("no copy of it can be made")

// withCopy calls use with the directory of a copy of the state, since containerd reads
// files, and removes the copy. The error is that of use, or [errNoCopy].
func (w *Watcher) withCopy(state *hostDirState, use func(dir string) error) error {
	var failed []error
	for _, place := range w.places() {
		root, dir, err := copyIn(place, state)
		if err == nil {
			defer func() { _ = os.RemoveAll(root) }()
			return use(dir)
		}
		failed = append(failed, durable.WithPath(err, place))
	}
	return fmt.Errorf("%w: %w", errNoCopy, errors.Join(failed...))
}

// places are directories for copies, for root alone. What a kill leaves there is cleared
// away at the next start.
func (w *Watcher) places() (places []string) {
	if w.options.State != "" {
		places = append(places, w.options.State)
	}
	if w.options.Archive != "" {
		places = append(places, filepath.Dir(w.options.Archive))
	}
	if places == nil {
		return []string{os.TempDir()}
	}
	return places
}

// copyIn makes a directory in a place, and the copy of a state in a directory under that. On an
// error nothing is left.
func copyIn(place string, state *hostDirState) (root, dir string, err error) {
	if err := os.MkdirAll(place, dirMode); err != nil {
		return "", "", err
	}
	if root, err = os.MkdirTemp(place, "hosts-"); err != nil {
		return "", "", err
	}
	if dir, err = copyState(root, state); err != nil {
		_ = os.RemoveAll(root)
	}
	return root, dir, err
}

// copyState writes hosts.toml into a directory under root, and returns that. Links
// stand for the files that it names by relative paths, so that they mean what they
// mean in its own directory.
func copyState(root string, state *hostDirState) (dir string, err error) {
	file, err := parse(state.dir, state.text)
	if err != nil {
		return "", err
	}
	names := file.relative()
	up := 0 // how far the paths lead out of the directory
	for _, name := range names {
		up = max(up, strings.Count(name, ".."+string(filepath.Separator)))
	}
	dir = filepath.Join(root, strings.Repeat("d"+string(filepath.Separator), up+1))
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	for _, name := range names {
		link := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(link), dirMode); err != nil {
			return "", err
		}
		target, err := filepath.Abs(filepath.Join(state.dir, name))
		if err != nil {
			return "", err
		}
		if err := os.Symlink(target, link); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, fileName), state.text, fileMode)
}
