// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"

	"github.com/opencontainers/go-digest"
)

// LabelRecord says which record and digest the other labels were written for:
// "<target digest> <record name>". Every write of a state writes it too. Clients
// of containerd can move the target of a record and keep its labels (ctr images
// import --local), and copy labels to a record of another name (ctr images tag
// --local).
const LabelRecord = Prefix + "record"

// binding is the value of LabelRecord on a record that points at target.
func binding(name string, target digest.Digest) string { return target.String() + " " + name }

// relation is that of pullwarden's labels to the record that has them.
type relation int

const (
	own      relation = iota // written for this record and its target
	foreign                  // written for another record or target: they count as absent
	doubtful                 // written for nobody knows what: they prove nothing, and still restrict
)

// relationOf reads LabelRecord. Earlier versions did not write it: their labels
// are the record's own where a check of its target is among them.
func relationOf(name string, target digest.Digest, labels map[string]string) relation {
	subject, written, _ := strings.Cut(labels[LabelRecord], " ")
	if labels[LabelRecord] == "" {
		subject, written = labels[LabelVerifiedDigest], name
	}
	switch {
	case subject != "" && subject == target.String() && written == name:
		return own
	case digest.Digest(subject).Validate() != nil || written == "":
		return doubtful
	}
	return foreign
}

// writtenFor returns the name of the record that labels were written for; "" where
// they do not say.
func writtenFor(labels map[string]string) string {
	_, name, _ := strings.Cut(labels[LabelRecord], " ")
	return name
}
