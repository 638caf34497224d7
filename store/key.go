// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pullwarden/pullwarden/internal/keyedhash"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

const (
	keySize = 32
	keyMode = 0o600
	// fingerprintSize is how many bytes of the HMAC a fingerprint keeps.
	fingerprintSize = 16
)

// Fingerprint stands for a caller's credentials without telling them. It ends the
// key of a label that begins with [LabelAccess].
type Fingerprint string

// Anonymous is the fingerprint of no credentials.
const Anonymous Fingerprint = "anonymous"

// Key makes fingerprints: HMAC-SHA-256 (RFC 2104) with a secret of the node.
// Without the key nobody can find out whether a guessed password has a
// fingerprint, and a fingerprint of one node means nothing on another.
type Key struct{ secret [keySize]byte }

// OpenKey reads the node's key, or makes one: 32 random bytes, readable by its
// owner alone, put in place in one step. A key that is damaged, or that others
// could read, is replaced: all proofs under it are void then, never valid. An
// error means that the new key could not be written.
func OpenKey(path string) (*Key, error) {
	k, err := readKey(path)
	if err == nil {
		return k, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		prefixlog.L().WithError(err).Warn("the key of the fingerprints is replaced, and every proof of access is void")
	}
	k = &Key{}
	if _, err := rand.Read(k.secret[:]); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	if err := writeFile(path, k.secret[:]); err != nil {
		return nil, fmt.Errorf("write the key of the fingerprints: %w", err)
	}
	return k, nil
}

func readKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&^keyMode != 0 || info.Size() != keySize {
		return nil, fmt.Errorf("%s is not a regular file of %d bytes and mode %#o: it has %d bytes and mode %#o", path, keySize, keyMode, info.Size(), info.Mode().Perm())
	}
	k := &Key{}
	if _, err := io.ReadFull(f, k.secret[:]); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if k.secret == [keySize]byte{} {
		return nil, fmt.Errorf("%s has no bit set", path) // a crash of the file system looks like this
	}
	return k, nil
}

// writeFile puts a file in place with its whole content or not at all.
func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Fingerprint returns the fingerprint of a user name and a secret; Anonymous
// when both are empty. The same credentials always have the same fingerprint
// under the same key.
func (k *Key) Fingerprint(username, secret string) Fingerprint {
	if username == "" && secret == "" {
		return Anonymous
	}
	sum := keyedhash.Sum(k.secret[:], username, secret)
	return Fingerprint(hex.EncodeToString(sum[:fingerprintSize]))
}
