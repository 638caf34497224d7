// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/store"
)

// image is what tags stand for together: CRI removes an image with all of its names.
type image struct {
	id    digest.Digest
	bytes int64
	used  time.Time      // by the tag that was used last
	tags  []store.Record // in the order of their names
}

// imagesOf puts tags of the same image together. Its size is the least that they claim:
// another's manifest with the same config must not make an image too large.
func imagesOf(tags []tag) []image {
	byID := map[digest.Digest]*image{}
	var order []digest.Digest
	for _, t := range tags {
		i := byID[t.size.id]
		if i == nil {
			i = &image{id: t.size.id, bytes: t.size.bytes}
			byID[t.size.id] = i
			order = append(order, t.size.id)
		}
		i.bytes = min(i.bytes, t.size.bytes)
		i.tags = append(i.tags, t.record)
		if t.used.After(i.used) {
			i.used = t.used
		}
	}
	all := make([]image, 0, len(order))
	for _, id := range order {
		slices.SortFunc(byID[id].tags, func(a, b store.Record) int { return cmp.Compare(a.Name, b.Name) })
		all = append(all, *byID[id])
	}
	return all
}

// fit parts images by a limit on the sum of their sizes, in bytes; 0 is no limit. Those
// that are too large by themselves take no room of others; then those go that were used
// longest ago, until the others fit.
func fit(all []image, limit int64) (kept, released, tooLarge []image) {
	if limit <= 0 {
		return all, nil, nil
	}
	for _, i := range all {
		if i.bytes > limit {
			tooLarge = append(tooLarge, i)
			continue
		}
		kept = append(kept, i)
	}
	slices.SortStableFunc(kept, func(a, b image) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.id, b.id))
	})
	first := len(kept) // of those that fit, from the last used on
	for sum := int64(0); first > 0; first-- {
		if sum = add(sum, kept[first-1].bytes); sum > limit {
			break
		}
	}
	return kept[first:], slices.Clip(kept[:first]), tooLarge
}

func total(all []image) (sum int64) {
	for _, i := range all {
		sum = add(sum, i.bytes)
	}
	return sum
}

// add adds sizes, which are not negative, up to the largest there is: they are what
// manifests claim.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
