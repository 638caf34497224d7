// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Sources tells where what is on the node came from.
type Sources interface {
	// Unpacked returns the hosts from which the layers came that a container of the image of
	// target stands on by that snapshotter, and whether all are known.
	Unpacked(ctx context.Context, target ocispec.Descriptor, snapshotter string) (from provenance.Provenance, known bool, err error)
	// Compared takes note that the layers of the image of target unpack to what its config says.
	Compared(ctx context.Context, target ocispec.Descriptor, snapshotter string) error
}

// foreign reports whether an image is not known to have come from allowed hosts alone, which have all of its layers. The record
// says where its layers came from for the snapshotters alone that it was pulled for: others may have
// had some of them before, or got them with other images. A comparison holds for each: snapshots go by
// what layers unpack to.
func (e *Engine) foreign(ctx context.Context, t task, r store.Record) (bool, error) {
	if !t.restricted() || t.foreign(r.State) {
		return t.restricted(), nil
	}
	if r.Compared {
		return false, nil
	}
	from, known, err := e.Sources.Unpacked(ctx, r.Target, t.Snapshotter)
	if err != nil {
		return true, fmt.Errorf("find out where the layers came from: %w", e.orGone(ctx, t, r.Target.Digest, err))
	}
	return !known || !t.allows(from.Hosts...), nil
}

// foreign reports whether the record of an image does not say that it came from allowed hosts
// alone, which have all of its layers, or was compared with these.
func (t *task) foreign(s store.State) bool {
	return t.restricted() && (t.fromElsewhere(s) || !hasLayers(s))
}

// hasLayers reports whether the hosts of an image are known to have its layers.
func hasLayers(s store.State) bool { return s.HasLayers || s.Compared }

// fromElsewhere reports whether the record of an image says that some of it came from hosts that are not allowed, or nobody knows where.
func (t *task) fromElsewhere(s store.State) bool {
	host, _, _ := strings.Cut(s.PullSource, "/")
	return s.UnknownSources || !t.allows(host) || !t.allows(s.ContentSources...)
}

// allows reports whether all of the hosts are allowed.
func (t *task) allows(hosts ...string) bool {
	return !slices.ContainsFunc(hosts, func(h string) bool { return !t.directives.AllowedSources.Allow(h) })
}
