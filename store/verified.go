// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"time"

	"github.com/opencontainers/go-digest"
)

// Verified says that a registry confirmed the digest for the name.
type Verified struct {
	Digest digest.Digest
	At     time.Time
	By     string
	// Origin says that By is the registry of the name itself. It is not recorded: a mark with it
	// leaves no earlier checks and proofs of another host beside its own.
	Origin bool
	// Unshown says that By may have answered without having looked at the caller's credentials:
	// it was not shown any, or the node's as well. It is not recorded either: where there are too
	// many proofs, those go first that are known to have been given so.
	Unshown bool
	// Read is the last check that has read the manifest, too; zero = none. A later one
	// of the digest alone leaves it as it is.
	Read Reading
	// Earlier and EarlierRead are the last checks of these kinds by another host than By, or
	// Read.By, where they may still count: zero = none.
	Earlier, EarlierRead Reading
}

// Reading says when a host answered a check, or delivered the manifest in it, and which one.
type Reading struct {
	At time.Time
	By string
}

// decodeVerified reads the check of target; zero for none.
func decodeVerified(target digest.Digest, labels map[string]string) Verified {
	at := decodeTime(labels[LabelVerifiedAt])
	if at.IsZero() || target == "" || labels[LabelVerifiedDigest] != target.String() {
		return Verified{}
	}
	return Verified{
		Digest: target, At: at, By: labels[LabelVerifiedBy],
		Read:        decodeReading(labels[LabelManifestRead]),
		Earlier:     decodeReading(labels[LabelVerifiedAt+earlier]),
		EarlierRead: decodeReading(labels[LabelManifestRead+earlier]),
	}
}

// decodeReading reads the value of a label; zero where it cannot be read.
func decodeReading(value string) Reading {
	read := decodeProof(value)
	if read.At.IsZero() {
		return Reading{}
	}
	return Reading(read)
}

// change is what a mark changes for the check alone. One that has not read the manifest takes
// none away that has.
func (v Verified) change() map[string]string {
	change := map[string]string{
		LabelVerifiedDigest: v.Digest.String(),
		LabelVerifiedAt:     encodeTime(v.At),
		LabelVerifiedBy:     v.By,
	}
	if v.Origin {
		v.Earlier, v.EarlierRead = Reading{v.At, v.By}, v.Read
	}
	for label, read := range map[string]Reading{
		LabelVerifiedAt + earlier: v.Earlier, LabelManifestRead: v.Read, LabelManifestRead + earlier: v.EarlierRead,
	} {
		if !read.At.IsZero() {
			change[label] = Proof(read).encode()
		}
	}
	return change
}
