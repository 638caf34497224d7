// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// MayPin reports whether the directives of pods of any namespace pin an image. Under
// [Observe] nothing is pinned and nothing is released: it counts as a yes.
func (r *Rules) MayPin(image Image) bool {
	return r.inAnyNamespace(image, func(d *Effective) bool { return d.Pin || d.Mode == Observe })
}
