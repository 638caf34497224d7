// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rulesync keeps a node's copy of rules that come from somewhere else, such as a
// mounted ConfigMap: one generated rule file in config_path, which is exchanged by one
// rename. So the daemon, which reads a directory file by file, never sees a part of the
// rules. Rules that do not parse, or whose cases do not hold, are not taken: the copy stays
// as it was.
package rulesync

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/internal/durable"
	"github.com/pullwarden/pullwarden/internal/plural"
)

// pollInterval is how often Watch compares the source with the copy. The kubelet takes up
// to a minute to bring a changed ConfigMap to the node anyway.
const pollInterval = 5 * time.Second

// Sync is a source of rules and the file that is a copy of them.
type Sync struct {
	// From is the directory of the rule files and of their cases: a mounted ConfigMap, or
	// any other directory.
	From string
	// To is the rule file to write, in the config_path of a daemon.
	To string
	// Log gets a line for each copy, and for each source that is not taken.
	Log io.Writer

	refused string // why the source was not taken the last time; "" = it was
}

// Once makes the copy the same as its source. The error says why it stays as it was.
func (s *Sync) Once() error {
	was, err := current(s.To)
	if err != nil {
		return err
	}
	if err := removeLeftovers(s.To); err != nil {
		return err
	}
	wanted, err := read(s.From)
	if err != nil {
		return err
	}
	text := wanted.render()
	if was == text {
		return nil
	}
	warnings, err := wanted.validate()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.say("warning: " + w)
	}
	if err := replace(s.To, text); err != nil {
		return err
	}
	s.say(fmt.Sprintf("%s holds the rules of %s now", s.To, plural.Of(len(wanted.rules), "file")))
	return nil
}

// Probe reports whether the copy is the same as its source. The error says why not.
func (s *Sync) Probe() error {
	wanted, err := read(s.From)
	if err != nil {
		return err
	}
	was, err := current(s.To)
	if err != nil || was == wanted.render() {
		return err
	}
	if _, err := wanted.validate(); err != nil {
		return err
	}
	return fmt.Errorf("the rules of %s have not been copied to %s yet", s.From, s.To)
}

// Watch keeps the copy the same as its source until stop is closed. A source that is not
// taken is told of once for each reason.
func (s *Sync) Watch(stop <-chan struct{}) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		refused := ""
		if err := s.Once(); err != nil {
			refused = err.Error()
			if refused != s.refused {
				s.say(fmt.Sprintf("the rules in %s are not taken; %s stays as it was: %s", s.From, s.To, refused))
			}
		}
		s.refused = refused
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// say writes a line.
func (s *Sync) say(line string) { _, _ = io.WriteString(s.Log, line+"\n") }

// errForeign says that the file was written by somebody else.
var errForeign = errors.New("it was not written by pullwarden sync-rules: move it away, or choose another name for the copy")

// current returns what the copy holds; "" where there is none. A file of somebody else is an
// error: it is never replaced.
func current(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file: %w", path, errForeign)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if !isOurs(text) {
		return "", fmt.Errorf("%s: %w", path, errForeign)
	}
	return string(text), nil
}

// temporary returns how the names begin and end that files have while they are written, with a
// number between. No daemon reads them: they do not end in .toml.
func temporary(path string) (begin, end string) { return "." + filepath.Base(path) + ".", ".tmp" }

// removeLeftovers removes what a kill in the middle of a write has left: files with the names that
// os.CreateTemp gives, which have a number.
func removeLeftovers(path string) error {
	begin, end := temporary(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		rest, ours := strings.CutPrefix(entry.Name(), begin)
		number, ends := strings.CutSuffix(rest, end)
		if ours && ends && number != "" && strings.Trim(number, "0123456789") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), entry.Name())))
		}
	}
	return err
}

const fileMode = 0o644 // rules are no secret; the operator reads them

// replace puts a file in place with its whole content or not at all. When it returns nil,
// the file is on disk.
func replace(path, text string) (err error) {
	dir := filepath.Dir(path)
	begin, end := temporary(path)
	defer func() { err = durable.WithPath(err, path) }()
	f, err := os.CreateTemp(dir, begin+"*"+end)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			_ = os.Remove(f.Name()) // the next call tries again
		}
	}()
	if err := f.Chmod(fileMode); err != nil {
		return err
	}
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return durable.SyncDir(dir) // the new name is the directory's
}
