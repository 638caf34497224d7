// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

const (
	archiveMode = 0o600
	// maxArchive bounds, in bytes, the files of an archive.
	maxArchive = 16 * filestamp.MaxFile
)

// archive keeps the last good rules on disk as the very files that they stood
// in, with their paths, so that errors and log lines name file and line as before:
// a tar.gz that an operator can unpack. gzip's checksum tells a damaged one. One
// goroutine at a time may use it.
type archive struct {
	path    string // "" = nothing is kept
	has     sum    // of the files that it has; zero = it has none for sure
	problem string // why the last keep has failed; "" = it has not
}

// keptFiles are the files of an archive.
type keptFiles struct {
	files []File
	at    time.Time // when they were kept
}

var errNothingKept = errors.New("no rules were kept before")

// load returns the files that were kept, and clears away what a keep that was cut
// short has left. The error is errNothingKept where there is no archive.
func (a *archive) load() (keptFiles, error) {
	if a.path == "" {
		return keptFiles{}, errNothingKept
	}
	a.removeLeftovers()
	data, _, err := filestamp.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return keptFiles{}, errNothingKept
	}
	if err != nil {
		return keptFiles{}, err
	}
	kept, err := unpack(data)
	if err != nil {
		return keptFiles{}, fmt.Errorf("%s: %w", a.path, err)
	}
	a.has = sumOf(kept.files)
	return kept, nil
}

// removeLeftovers removes everything beside the archive: unfinished ones.
func (a *archive) removeLeftovers() {
	entries, err := os.ReadDir(filepath.Dir(a.path))
	if err != nil {
		return // load and keep report what is wrong with the directory
	}
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != filepath.Base(a.path) {
			_ = os.Remove(filepath.Join(filepath.Dir(a.path), e.Name()))
		}
	}
}

// keep puts files, whose sum is of, in the place of those that were kept; at once
// or not at all. A failure is logged, and the next call tries again.
func (a *archive) keep(files []File, of sum) {
	if a.path == "" || a.has == of {
		return
	}
	err := a.write(files)
	switch {
	case err == nil:
		a.has, a.problem = of, ""
	case a.problem != err.Error():
		a.problem = err.Error()
		prefixlog.L().WithError(err).Warn("the rules in force are not kept: a restart with a mistake in a rule file goes back to older ones, or fails")
	}
}

func (a *archive) write(files []File) error {
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
func unpack(data []byte) (keptFiles, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return keptFiles{}, err
	}
	// The checksum is compared at the end, so all is read before any of it counts.
	content, err := io.ReadAll(io.LimitReader(z, maxArchive+1))
	if err != nil {
		return keptFiles{}, err
	}
	if len(content) > maxArchive {
		return keptFiles{}, fmt.Errorf("it has more than %d bytes", maxArchive)
	}
	kept := keptFiles{at: z.ModTime}
	for t := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return kept, nil
		}
		if err != nil {
			return keptFiles{}, err
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return keptFiles{}, err
		}
		kept.files = append(kept.files, File{"/" + h.Name, data})
	}
}
