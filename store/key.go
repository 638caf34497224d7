// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/hex"

	"github.com/pullwarden/pullwarden/internal/keyedhash"
)

const (
	keySize = 32
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
