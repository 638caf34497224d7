// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// Filter picks images. The zero value picks all.
type Filter struct {
	// Stale picks those with a stale mark.
	Stale bool
	// Source picks those to which this host, by any of its names, has served the
	// manifest or content. "" = any.
	Source string
	// OlderThan picks those whose last check is longer ago, or not known. 0 = any.
	OlderThan time.Duration
}

// Only returns the report with the images that the filter picks. Problems stay.
func (r Report) Only(f Filter, now time.Time) Report {
	r.Images = slices.DeleteFunc(slices.Clone(r.Images), func(i Image) bool {
		return f.Stale && !i.Stale() ||
			f.Source != "" && !i.servedBy(f.Source) ||
			f.OlderThan > 0 && now.Sub(i.VerifiedAt) <= f.OlderThan
	})
	return r
}

func (i Image) servedBy(host string) bool {
	host = registryname.Canonical(host)
	same := func(other string) bool { return other != "" && registryname.Canonical(other) == host }
	return same(i.Source()) || slices.ContainsFunc(i.ContentSources, same)
}
