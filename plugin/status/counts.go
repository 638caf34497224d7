// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import "github.com/containerd/containerd/v2/core/images"

// Counts says how many images need attention.
type Counts struct {
	Stale int // tags that were last used although their check failed, or found another digest
	Open  int // no registry was ever asked about them
	// Unchecked are those tags that no registry has confirmed since they point at
	// their digest. An image without a tag is none: a digest cannot change.
	Unchecked int
}

// Count counts among the records of one containerd namespace, as [New] does.
func Count(records []images.Image) (c Counts) {
	for _, i := range imagesOf(records) {
		if i.Stale() {
			c.Stale++
		}
		if i.Open {
			c.Open++
		}
		if _, tagged := repositoryOfTag(i.Reference); tagged && i.VerifiedAt.IsZero() {
			c.Unchecked++
		}
	}
	return c
}
