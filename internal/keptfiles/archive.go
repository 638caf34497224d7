// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keptfiles keeps the last good files of a configuration on disk, for a
// start with a mistake in them.
package keptfiles

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/internal/durable"
	"github.com/pullwarden/pullwarden/internal/filestamp"
)

const (
	archiveMode = 0o600
	// maxArchive bounds, in bytes, the files of an archive.
	maxArchive = 16 * filestamp.MaxFile
)

// File is a file as it was read.
type File struct {
	Path string // absolute
	Data []byte
}

// Sum tells the paths and the content of files from any other.
type Sum [sha256.Size]byte

// SumOf returns the sum of files. It is never zero.
func SumOf(files []File) (s Sum) {
	hash := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(hash, "%q %d\n", f.Path, len(f.Data))
		hash.Write(f.Data)
	}
	hash.Sum(s[:0])
	return s
}

// Archive keeps files with their paths, so that errors and log lines name file and
// line as before: a tar.gz for root alone, which an operator can unpack. gzip's
// checksum tells a damaged one. One goroutine at a time may use it.
type Archive struct {
	path    string
	has     Sum    // of the files that it has; zero = it has none for sure
	problem string // why the last Keep has failed; "" = it has not
}

// New returns the archive of a path in a directory of its own, which the first
// Keep makes. An empty path keeps nothing.
func New(path string) Archive { return Archive{path: path} }

// Kept are the files of an archive.
type Kept struct {
	Files []File
	At    time.Time // when they were kept
}

// ErrNothing says that there is no archive.
var ErrNothing = errors.New("nothing was kept before")

// Load returns the files that were kept, and clears away everything beside the
// archive, such as what a Keep that was cut short has left. The error is
// [ErrNothing] where there is no archive.
func (a *Archive) Load() (Kept, error) {
	if a.path == "" {
		return Kept{}, ErrNothing
	}
	a.removeLeftovers()
	data, _, err := filestamp.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Kept{}, ErrNothing
	}
	if err != nil {
		return Kept{}, err
	}
	kept, err := unpack(data)
	if err != nil {
		return Kept{}, fmt.Errorf("%s: %w", a.path, err)
	}
	a.has = SumOf(kept.Files)
	return kept, nil
}

func (a *Archive) removeLeftovers() {
	entries, err := os.ReadDir(filepath.Dir(a.path))
	if err != nil {
		return // Load and Keep report what is wrong with the directory
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(a.path) {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(a.path), e.Name()))
		}
	}
}

// Keep puts files, whose sum is of, in the place of those that were kept; at once
// or not at all. After a failure the next call tries again. The same error is
// returned once.
func (a *Archive) Keep(files []File, of Sum) error {
	if a.path == "" {
		return nil
	}
	if a.has == of {
		a.problem = "" // it is over: the same one again is a new one
		return nil
	}
	err := a.write(files)
	if err == nil {
		a.has, a.problem = of, ""
		return nil
	}
	if a.problem == err.Error() {
		return nil
	}
	a.problem = err.Error()
	return err
}

func (a *Archive) write(files []File) error {
	data, err := pack(files, time.Now())
	if err != nil {
		return err
	}
	return durable.WriteFile(a.path, data, archiveMode)
}

func pack(files []File, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.ModTime = at
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Size: int64(len(f.Data)), Mode: archiveMode, ModTime: at}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unpack is the inverse of pack. It returns nothing of an archive that is damaged
// anywhere.
func unpack(data []byte) (Kept, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return Kept{}, err
	}
	// The checksum is compared at the end, so all is read before any of it counts.
	content, err := io.ReadAll(io.LimitReader(z, maxArchive+1))
	if err != nil {
		return Kept{}, err
	}
	if len(content) > maxArchive {
		return Kept{}, fmt.Errorf("it has more than %d bytes", maxArchive)
	}
	kept := Kept{At: z.ModTime}
	for t := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return kept, nil
		}
		if err != nil {
			return Kept{}, err
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return Kept{}, err
		}
		kept.Files = append(kept.Files, File{"/" + h.Name, data})
	}
}
