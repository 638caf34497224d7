// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"path/filepath"
	"strings"
)

// Problem is a host directory whose newest files are not in force.
type Problem struct {
	Err      *FileError
	LastGood bool // whether a last good hosts.toml is in force in its place
	// OnlyAsked says that the last good one names a certificate or key that cannot be read
	// now, or that NoCopy, so that it is in force for those registries alone that were asked before.
	OnlyAsked bool
	// NoCopy is why no copy of the last good one can be made for containerd to read, as on a
	// full disk; nil = one can.
	NoCopy error
}

// Consequence says in a clause what follows from the problem.
func (p Problem) Consequence() string {
	switch {
	case p.NoCopy != nil:
		return "its last good version is used only for registries that were asked before, and requests for others fail: " + strings.ReplaceAll(p.NoCopy.Error(), "\n", "; ")
	case p.OnlyAsked:
		return "a certificate or key of its last good version cannot be read, so that is used only for registries that were asked before, and requests for others fail"
	case p.LastGood:
		return "its last good version is used instead"
	}
	return "no good version of it was kept, so requests for its registries fail"
}

// problem returns that of a directory, false for none.
func (w *Watcher) problem(dir string, d *watched) (Problem, bool) {
	var e *FileError
	if !errors.As(d.err, &e) {
		return Problem{}, false
	}
	p := Problem{Err: e, LastGood: len(d.good.text) > 0}
	if p.LastGood {
		err := w.tryText(dir, d.good.text)
		if p.OnlyAsked = err != nil; errors.Is(err, errNoCopy) {
			p.NoCopy = err
		}
	}
	return p, true
}

// tryText returns why containerd cannot use a text as the hosts.toml of a directory, with
// the certificates as they are now.
func (w *Watcher) tryText(dir string, text []byte) error {
	state, err := stateOf(dir, text)
	if err != nil {
		return err
	}
	return w.withCopy(state, func(copied string) error { return tryConfigure(filepath.Base(dir), copied) })
}
