// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// versionTimeout bounds containerd --version.
const versionTimeout = 20 * time.Second

// Source is a release that is open, to be read even when the process has another root, or
// its files another name.
type Source struct {
	Release

	files map[string]*os.File
}

// Open opens the release in a folder. An error is told by the plan: see Release. The
// caller closes the source.
func Open(ctx context.Context, folder string) *Source {
	s := &Source{Release: Release{Folder: folder, Digests: Digests{}}, files: map[string]*os.File{}}
	for _, name := range binaries() {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			s.Error = fmt.Sprintf("%v: --from names the folder with containerd and pullwarden", err)
			return s
		}
		s.files[name] = f
		if s.Digests[name], err = digestOf(f); err != nil {
			s.Error = err.Error()
			return s
		}
	}
	var err error
	if s.Version, err = versionOf(ctx, filepath.Join(folder, daemon)); err != nil {
		s.Error = err.Error()
	}
	return s
}

// reader reads a binary from its beginning.
func (s *Source) reader(name string) (io.Reader, error) {
	f := s.files[name]
	if f == nil {
		return nil, errors.New(s.Error)
	}
	_, err := f.Seek(0, io.SeekStart)
	return f, err
}

// Close closes the files.
func (s *Source) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// versionOf runs a containerd for its version.
func versionOf(ctx context.Context, path string) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return Version{}, fmt.Errorf("%s is not built for this machine", path)
	case err != nil:
		return Version{}, fmt.Errorf("%s --version: %w", path, err)
	}
	v, ok := parseVersion(string(out))
	if !ok {
		return Version{}, fmt.Errorf("%s --version prints no version of containerd: %.80q", path, out)
	}
	return v, nil
}
