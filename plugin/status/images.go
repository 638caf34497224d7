// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/store"
)

// Image is one name of an image. Keys of what is not known are left out of JSON.
type Image struct {
	Reference      string    `json:"reference"`
	Digest         string    `json:"digest"`
	PullSource     string    `json:"pullSource,omitempty"` // the reference as the host that served the manifest knows it
	ContentSources []string  `json:"contentSources"`       // the hosts, where more than one served it
	VerifiedAt     time.Time `json:"verifiedAt,omitzero"`
	VerifiedBy     string    `json:"verifiedBy,omitempty"`
	StaleSince     time.Time `json:"staleSince,omitzero"`
	StaleReason    string    `json:"staleReason,omitempty"`
	Proofs         int       `json:"proofs"` // how many callers have proved access
	Pinned         bool      `json:"pinned"` // kept from the kubelet's garbage collection
	Open           bool      `json:"open"`   // no registry was ever asked about it
}

// Stale reports whether the image was last used although its check failed, or found another
// digest.
func (i Image) Stale() bool { return !i.StaleSince.IsZero() }

// overdue reports whether it is stale since a pull took longer than pull_deadline.
func (i Image) overdue() bool { return i.StaleReason == string(store.PullDeadline) }

// Source returns the host that served the manifest, "" where nobody knows.
func (i Image) Source() string {
	host, _, _ := strings.Cut(i.PullSource, "/")
	return host
}

// imagesOf returns a row for each tag, and for each repository@digest without one.
// CRI's record by image ID is none.
func imagesOf(records []images.Image) []Image {
	canonical := map[string]images.Image{}
	pinned := map[digest.Digest]bool{} // CRI removes an image with all of its names, or none
	for _, r := range records {
		if r.Labels[labels.CRIPinned] == labels.CRIPinnedValue {
			pinned[r.Target.Digest] = true
		}
		if repository, _, ok := strings.Cut(r.Name, "@"); ok {
			canonical[withDigest(repository, r.Target.Digest)] = r
		}
	}
	all := []Image{}
	tagged := map[string]bool{}
	for _, r := range records {
		repository, ok := repositoryOfTag(r.Name)
		if !ok {
			continue
		}
		name := withDigest(repository, r.Target.Digest)
		tagged[name] = true
		twin, found := canonical[name]
		all = append(all, imageOf(r, twin, found))
	}
	for name, r := range canonical {
		if !tagged[name] {
			img := imageOf(r, images.Image{}, false)
			// The mark of a tag that has moved on, or is gone. A digest cannot be stale.
			img.StaleSince, img.StaleReason = time.Time{}, ""
			all = append(all, img)
		}
	}
	for i := range all {
		all[i].Pinned = pinned[digest.Digest(all[i].Digest)]
	}
	return all
}

// sorted returns the rows with those first that need attention.
func sorted(all []Image) []Image {
	slices.SortFunc(all, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), a.StaleSince.Compare(b.StaleSince), cmp.Compare(a.Reference, b.Reference))
	})
	return all
}

func withDigest(repository string, d digest.Digest) string { return repository + "@" + d.String() }

// repositoryOfTag cuts the tag off. Names by digest or image ID have none.
func repositoryOfTag(name string) (repository string, ok bool) {
	colon := strings.LastIndex(name, ":")
	if strings.Contains(name, "@") || colon <= strings.LastIndex(name, "/") || digest.Digest(name).Validate() == nil {
		return "", false
	}
	return name[:colon], true
}

// imageOf returns the row of a record, but for Pinned, which depends on others. A proof
// counts on the record of the tag and on that of repository@digest, its twin.
func imageOf(r, twin images.Image, found bool) Image {
	s := store.Decode(r.Name, r.Target.Digest, r.Labels)
	restricted := s.Restricted
	proofs := map[store.Fingerprint]store.Proof{}
	maps.Copy(proofs, s.Access)
	maps.Copy(proofs, s.Earlier)
	if found {
		other := store.Decode(twin.Name, twin.Target.Digest, twin.Labels)
		restricted = restricted || other.Restricted
		maps.Copy(proofs, other.Access)
		maps.Copy(proofs, other.Earlier)
	}
	return Image{
		Reference: r.Name, Digest: r.Target.Digest.String(),
		PullSource: s.PullSource, ContentSources: append([]string{}, s.ContentSources...),
		VerifiedAt: s.Verified.At, VerifiedBy: s.Verified.By,
		StaleSince: s.Stale.Since, StaleReason: string(s.Stale.Reason),
		Proofs: len(proofs), Open: !restricted,
	}
}

// rank orders by need of attention: stale images, then those that no registry has
// confirmed, then the others.
func (i Image) rank() int {
	switch {
	case i.Stale():
		return 0
	case i.VerifiedAt.IsZero():
		return 1
	}
	return 2
}
