// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// maxNamed bounds the images that a log line names.
const maxNamed = 16

// tellUnruled logs and counts records whose pin no rule wants any more.
func (k *Keeper) tellUnruled(records []store.Record) {
	names := make([]string, len(records))
	for i, r := range records {
		k.o.Released(ByRule)
		names[i] = r.Name
	}
	if len(names) > 0 {
		prefixlog.L().Infof("released, since no rule pins them any more: %s", some(names))
	}
}

// tellReleased warns of images that there is no room for.
func (k *Keeper) tellReleased(all []image) {
	lines := make([]string, len(all))
	for n, i := range all {
		k.o.Released(ForRoom)
		used := "last used at a time that nobody knows"
		if !i.used.IsZero() {
			used = "last used " + i.used.UTC().Format(time.RFC3339)
		}
		lines[n] = fmt.Sprintf("%s (%s, %s)", i.name(), bytesOf(i.bytes), used)
	}
	if len(lines) > 0 {
		prefixlog.L().Warnf("released %s to keep within pin_limit = %q: the kubelet's garbage collection may remove %s",
			bytesOf(total(all)), bytesOf(k.o.Limit), some(lines))
	}
}

// tellTooLarge warns of images that no room is enough for, once of each.
func (k *Keeper) tellTooLarge(all []image) {
	for _, i := range all {
		if k.tooLarge.Contains(i.tags[0].Target.Digest) {
			continue
		}
		for _, r := range i.tags {
			k.tooLarge.Add(r.Target.Digest, struct{}{})
		}
		k.o.Released(TooLarge)
		prefixlog.L().Warnf("%s is not pinned: it has %s, and pin_limit is %q", i.name(), bytesOf(i.bytes), bytesOf(k.o.Limit))
	}
}

// name names an image by its tags.
func (i *image) name() string {
	names := make([]string, len(i.tags))
	for n, r := range i.tags {
		names[n] = r.Name
	}
	return some(names)
}

// some lists the first of many.
func some(all []string) string {
	if more := len(all) - maxNamed; more > 0 {
		return strings.Join(all[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(all, ", ")
}

func bytesOf(n int64) string { return units.BytesSize(float64(n)) }
