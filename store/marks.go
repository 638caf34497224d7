// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// key names a record while it points at target: a mark holds for that alone. A
// record that was removed and made again under its name is another one.
type key struct {
	namespace, name string
	target          digest.Digest
	created         int64 // Unix time in nanoseconds: containerd sets it once
}

func keyOf(namespace string, img images.Image) key {
	return key{namespace, img.Name, img.Target.Digest, img.CreatedAt.UnixNano()}
}

func (k key) record() recordName { return recordName{k.namespace, k.name} }

// marks are changes of labels; an empty value takes the label away.
type marks map[key]map[string]string

// add lays a mark over an earlier one.
func (m marks) add(k key, mark map[string]string) { m[k] = labels.Overlay(m[k], mark) }

// marked returns the labels of the record of k, with marks laid over them one
// after the other.
func marked(k key, all map[string]string, marks ...map[string]string) map[string]string {
	for _, mark := range marks {
		if mark != nil {
			all = labels.Overlay(all, Supersede(k.name, k.target, all, mark))
		}
	}
	return all
}

// Supersede returns the mark to lay over the labels below of the record of that
// name, which points at target, together with the removals it calls for. A mark
// binds all labels to the record, so it must not do that for those that were
// written for another, nor for proofs that were written for nobody knows what. A check makes proofs hold, and what was read of a manifest, so it must
// not do that for those of another digest, or without one. A mark that does not mention
// [LabelRecord] only takes labels away. A pin comes and goes with CRI's own label (withPin).
func Supersede(name string, target digest.Digest, below, mark map[string]string) map[string]string {
	if _, binds := mark[LabelRecord]; !binds {
		return withPin(below, maps.Clone(mark))
	}
	of := relationOf(name, target, below)
	unchecked := (mark[LabelVerifiedDigest] != "" || mark[LabelMirrorDigest] != "") && (of != own || !saysDigest(below, target))
	checkedAnew := mark[LabelVerifiedDigest] != "" && below[LabelVerifiedDigest] != target.String()
	change := map[string]string{}
	for label, value := range below {
		isProof := strings.HasPrefix(label, LabelAccess)
		switch {
		case value == "" || !strings.HasPrefix(label, Prefix) || label == LabelPinned: // CRI would not hear of it
		case of == foreign,
			of == doubtful && !restricts(label),
			of == doubtful && isProof && saysAnyDigest(below), // which goes on to restrict: together they would prove something
			unchecked && isProof,
			checkedAnew && isOfCheck(strings.TrimSuffix(label, earlier)):
			change[label] = ""
		}
	}
	change = withPin(below, labels.Overlay(change, withEarlier(labels.Overlay(below, change), mark)))
	if !says(labels.Overlay(below, change)) {
		change[LabelRecord] = ""
	}
	return change
}

// says reports whether any label of pullwarden's is there to be bound to a record.
func says(all map[string]string) bool {
	for label, value := range all {
		if value != "" && label != LabelRecord && strings.HasPrefix(label, Prefix) {
			return true
		}
	}
	return false
}
