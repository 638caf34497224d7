// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyedhash turns credentials into values that can be compared and kept
// without telling them.
package keyedhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Sum is HMAC-SHA-256 (RFC 2104) under key of the length of username in bytes,
// as a little-endian uint64, then username, then secret. The length keeps
// "a"+"bc" and "ab"+"c" apart. Labels on nodes are made of it: it must not
// change.
func Sum(key []byte, username, secret string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, key)
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(username)))
	mac.Write(length[:])
	mac.Write([]byte(username))
	mac.Write([]byte(secret))
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return sum
}
