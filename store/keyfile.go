// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/pullwarden/pullwarden/internal/durable"
	"github.com/pullwarden/pullwarden/internal/machineid"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

const (
	keyMode = 0o600
	// application is the name under which a machine's id is derived.
	application = "pullwarden.io/key"
)

// keyFile is the content of the key's file: the key, and behind it, where the
// machine has an id, what binds it to the machine.
type keyFile struct {
	key     Key
	binding []byte // nil = bound to no machine
}

// bind binds the key to a machine, by a value that proves the machine to those
// alone who have both; nil for a machine without an id.
func (f *keyFile) bind(machine []byte) {
	f.binding = nil
	if machine == nil {
		return
	}
	mac := hmac.New(sha256.New, f.key.secret[:])
	mac.Write(machine)
	f.binding = mac.Sum(nil)
}

// written returns the key once its file is in place.
func (f *keyFile) written(path string) (*Key, error) {
	if err := durable.WriteFile(path, append(f.key.secret[:keySize:keySize], f.binding...), keyMode); err != nil {
		return nil, fmt.Errorf("write the key of the fingerprints: %w", err)
	}
	return &f.key, nil
}

var errOtherMachine = errors.New("it was made on another machine, or this one has lost its id")

// OpenKey reads the node's key, or makes one: 32 random bytes, readable by its
// owner alone, put in place in one step. A key that is damaged, that others
// could read, or that was made on another machine, is replaced: all proofs under it
// are void then, never valid. machineID is the file with the machine's id
// (machine-id(5)), to which the key is bound; a key that is not bound yet is kept, and
// bound now, or, as on a full disk, at a later start. Without an id a bound key is
// replaced, and a copy of an unbound one is not noticed. An error means that a new key could
// not be written.
func OpenKey(path, machineID string) (*Key, error) {
	machine, err := machineid.Derive(machineID, application)
	if err != nil {
		prefixlog.L().WithError(err).Warn("the key of the fingerprints is bound to no machine: a copy on another one is not noticed")
	}
	f, err := readKeyFile(path)
	if err == nil {
		found := f.binding
		if f.bind(machine); hmac.Equal(found, f.binding) {
			return &f.key, nil
		}
		if found == nil {
			if _, err := f.written(path); err != nil {
				prefixlog.L().WithError(err).Warn("the key of the fingerprints could not be bound to the machine: until a later start binds it, a copy on another one is not noticed")
			}
			return &f.key, nil
		}
		err = errOtherMachine
	}
	if !errors.Is(err, os.ErrNotExist) {
		prefixlog.L().WithError(err).Warn("the key of the fingerprints is replaced, and every proof of access is void")
	}
	f = &keyFile{}
	if _, err := rand.Read(f.key.secret[:]); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	f.bind(machine)
	return f.written(path)
}

func readKeyFile(path string) (*keyFile, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for its writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || info.Mode().Perm()&^keyMode != 0 || size != keySize && size != keySize+sha256.Size {
		return nil, fmt.Errorf("%s is not a regular file of %d or %d bytes and mode %#o: it has %d bytes and mode %#o",
			path, keySize, keySize+sha256.Size, keyMode, size, info.Mode().Perm())
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && of.Uid != 0 && int(of.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to the user %d, who can read it", path, of.Uid)
	}
	f := &keyFile{}
	if _, err := io.ReadFull(file, f.key.secret[:]); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if f.key.secret == [keySize]byte{} {
		return nil, fmt.Errorf("%s has no bit set", path) // a crash of the file system looks like this
	}
	if size > keySize {
		f.binding = make([]byte, sha256.Size)
		if _, err := io.ReadFull(file, f.binding); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return f, nil
}
