// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// GovernsStart reports whether the decision holds for a kubelet's question whether an
// image is there, before it starts a container: for tags under the policies that ask a
// registry, and under [Strict] for everything.
func (d Directives) GovernsStart(byDigest bool) bool {
	switch {
	case d.Govern != Starts || d.Mode == Observe:
		return false
	case d.Access == Strict:
		return true
	}
	return !byDigest && (d.Policy == Always || d.Policy == IfDigestChanged)
}

// ProvesStarts reports whether every start of a container takes a proof of access.
func (d Directives) ProvesStarts() bool { return d.Access == Strict && d.GovernsStart(true) }

// ProvesStarts reports whether some rule has each start of its images proved. An image of
// which no name is left may have been one of these.
func (r *Rules) ProvesStarts() bool {
	return slices.ContainsFunc(r.byRule, func(d Effective) bool { return d.ProvesStarts() })
}

// GovernsStarts reports whether govern is Starts for an image, in one namespace at least.
func (r *Rules) GovernsStarts(image Image) bool {
	return r.inAnyNamespace(image, func(d *Effective) bool { return d.Govern == Starts })
}
