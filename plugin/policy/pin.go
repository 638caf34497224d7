// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// MayPin reports whether the directives of pods of any namespace pin an image. Under
// [Observe] nothing is pinned and nothing is released: it counts as a yes.
func (r *Rules) MayPin(image Image) bool {
	subject := Subject{Image: image}
	spelled := subject.spelled()
	for i := range r.rules {
		if !r.rules[i].matchesImage(&spelled) {
			continue
		}
		if r.byRule[i].keepsPins() {
			return true
		}
		if r.rules[i].Namespaces == nil {
			return false // it decides for all others
		}
	}
	return r.byRule[len(r.rules)].keepsPins()
}

func (d *Effective) keepsPins() bool { return d.Pin || d.Mode == Observe }
