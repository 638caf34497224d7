// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/pullwarden/pullwarden/internal/keyedhash"
)

const (
	keySize = 32
	// fingerprintSize is how many bytes of the HMAC a fingerprint keeps.
	fingerprintSize = 16
	// ofNamespaces is the info by which the key for namespaces is derived.
	ofNamespaces = "pullwarden.io/namespace"
	// ofConfigured is the same for credentials of the node's configuration.
	ofConfigured = "pullwarden.io/configured"
	// ofNode is the same for the number of the node.
	ofNode = "pullwarden.io/node"
)

// Fingerprint stands for the holder of a proof, without telling it: for a caller's
// credentials, or for the Kubernetes namespace of its pod. It ends the key of a
// label that begins with [LabelAccess]. The empty one is nobody's.
type Fingerprint string

// Anonymous is the fingerprint of no credentials.
const Anonymous Fingerprint = "anonymous"

// Key makes fingerprints: HMAC-SHA-256 (RFC 2104) with a secret of the node.
// Without the key nobody can find out whether a guessed password has a
// fingerprint, and a fingerprint of one node means nothing on another.
type Key struct{ secret [keySize]byte }

// Fingerprint returns the fingerprint of a user name and a secret; Anonymous
// when both are empty. The same credentials always have the same fingerprint
// under the same key: also where they are parted at another colon, which a registry
// cannot tell (RFC 7617).
func (k *Key) Fingerprint(username, secret string) Fingerprint {
	if username == "" && secret == "" {
		return Anonymous
	}
	if user, rest, ok := strings.Cut(username, ":"); ok {
		username, secret = user, rest+":"+secret
	}
	sum := keyedhash.Sum(k.secret[:], username, secret)
	return Fingerprint(hex.EncodeToString(sum[:fingerprintSize]))
}

// NamespaceFingerprint returns the fingerprint of a Kubernetes namespace; "" for
// none. The same namespace always has the same one under the same key. It is made
// with a key of its own, derived from the node's (RFC 5869, HKDF-Expand), whose
// input no credentials have: no namespace can be called so that it has the
// fingerprint of credentials, nor the other way round.
func (k *Key) NamespaceFingerprint(namespace string) Fingerprint {
	return k.derived(ofNamespaces, namespace)
}

// ConfiguredFingerprint returns the fingerprint of all credentials that the node's configuration has, in
// whatever text tells these apart from others; "" for none. It is of a third kind, made as
// NamespaceFingerprint is. It holds no proofs.
func (k *Key) ConfiguredFingerprint(credentials string) Fingerprint {
	return k.derived(ofConfigured, credentials)
}

// derived returns the fingerprint of a text under the key that is derived for that kind; "" for none.
func (k *Key) derived(kind, text string) Fingerprint {
	if text == "" {
		return ""
	}
	key, err := hkdf.Expand(sha256.New, k.secret[:], kind, keySize)
	if err != nil {
		return "" // only a length that is too long is an error
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return Fingerprint(hex.EncodeToString(mac.Sum(nil)[:fingerprintSize]))
}

// Node is a number that tells the node apart from others, and nothing of the key. It is
// never 0.
func (k *Key) Node() uint64 {
	derived, err := hkdf.Expand(sha256.New, k.secret[:], ofNode, 8)
	if err != nil {
		return 1 // only a length that is too long is an error
	}
	return binary.LittleEndian.Uint64(derived) | 1
}
