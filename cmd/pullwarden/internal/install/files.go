// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pullwarden/pullwarden/internal/durable"
)

const (
	dirMode    = 0o755
	binaryMode = 0o755
	textMode   = 0o644
	stagedName = ".new-" // begins the names of files that are not complete
)

// tree is a machine's file system: "" for its own, a directory in tests.
type tree string

func (t tree) path(parts ...string) string {
	return filepath.Join(append([]string{string(t) + "/"}, parts...)...)
}

// digest returns that of a file, "" for none.
func (t tree) digest(path string) (string, error) {
	f, err := os.Open(t.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digestOf(f)
}

func digestOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// text returns that of a file, nil for none.
func (t tree) text(path string) (*string, error) {
	data, err := os.ReadFile(t.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := string(data)
	return &text, nil
}

// writeText puts a file in place whole, on the disk. Its directory is made.
func (t tree) writeText(path, text string) error {
	path = t.path(path)
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(text), textMode)
}

// stage copies a file beside its later place, on the disk, and returns its name there. On
// an error nothing is left.
func (t tree) stage(dir, name string, from io.Reader, digest string) (staged string, err error) {
	if err := os.MkdirAll(t.path(dir), dirMode); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(t.path(dir), stagedName+name+"-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, h), from); err != nil {
		return "", errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Chmod(binaryMode), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return "", fmt.Errorf("%s has changed while it was copied", name)
	}
	return f.Name(), nil
}

// put gives a staged file its name.
func (t tree) put(staged, path string) error {
	if err := os.Rename(staged, t.path(path)); err != nil {
		return err
	}
	return t.sync(filepath.Dir(path))
}

// link gives a file a second name, in place of what has that name.
func (t tree) link(from, to string) error {
	if err := os.MkdirAll(t.path(filepath.Dir(to)), dirMode); err != nil {
		return err
	}
	between := t.path(filepath.Dir(to), stagedName+filepath.Base(to)+"-link")
	if err := remove(between); err != nil {
		return err
	}
	if err := os.Link(t.path(from), between); err != nil {
		return err
	}
	if err := os.Rename(between, t.path(to)); err != nil { // does nothing where both are one file
		return err
	}
	return errors.Join(remove(between), t.sync(filepath.Dir(to)))
}

// remove takes a file away, if there is one.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync brings the names in a directory to the disk.
func (t tree) sync(dir string) error { return durable.SyncDir(t.path(dir)) }

// clean removes what killed runs have left unfinished.
func (t tree) clean() error {
	var errs []error
	for _, dir := range []string{Dir, previousDir} {
		left, _ := filepath.Glob(t.path(dir, stagedName+"*")) // the pattern is good
		for _, path := range left {
			errs = append(errs, remove(path))
		}
	}
	return errors.Join(errs...)
}

// pending returns what an unfinished run has written down, nil for none.
func (t tree) pending() (*Original, error) {
	text, err := t.text(pendingFile)
	if err != nil || text == nil {
		return nil, err
	}
	was := &Original{}
	if err := json.Unmarshal([]byte(*text), was); err != nil {
		return nil, fmt.Errorf("%s: %w", pendingFile, err)
	}
	return was, nil
}
