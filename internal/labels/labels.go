// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labels holds what containerd's labels need wherever they are changed.
// In a change of labels an empty value takes its label away.
package labels

import "maps"

// The labels by which CRI marks its records (containerd's internal/cri/labels).
const (
	CRIManaged      = "io.cri-containerd.image" // it looks after the record
	CRIManagedValue = "managed"
	CRIPinned       = "io.cri-containerd.pinned" // the kubelet must not remove the image
	CRIPinnedValue  = "pinned"
)

// Overlay returns a new map with the labels of above laid over those of below.
// Either may be nil; the result never is.
func Overlay(below, above map[string]string) map[string]string {
	out := make(map[string]string, len(below)+len(above))
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

// Present deletes the labels without a value from m, and returns m.
func Present(m map[string]string) map[string]string {
	maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	return m
}
