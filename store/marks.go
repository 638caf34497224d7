// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
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

// marked returns the labels of a record that points at target, with marks laid
// over them one after the other.
func marked(target digest.Digest, all map[string]string, marks ...map[string]string) map[string]string {
	for _, mark := range marks {
		if mark != nil {
			all = labels.Overlay(all, Supersede(target, all, mark))
		}
	}
	return all
}

// Supersede returns the mark to lay over the labels below of a record that
// points at target, together with the removals it calls for. A check makes
// proofs hold, so a check of target must not do that for proofs that were given
// for another digest and were left behind when the target moved without us.
func Supersede(target digest.Digest, below, mark map[string]string) map[string]string {
	if mark[LabelVerifiedDigest] == "" || below[LabelVerifiedDigest] == target.String() {
		return mark
	}
	outdated := map[string]string{}
	for label, value := range below {
		if strings.HasPrefix(label, LabelAccess) && value != "" {
			outdated[label] = ""
		}
	}
	return labels.Overlay(outdated, mark)
}
