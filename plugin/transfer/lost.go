// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// The labels by which containerd's content refers to what belongs to it
// (images.ChildGCLabels, and unpack for snapshots). They outlive the file.
const (
	contentRef  = "containerd.io/gc.ref.content."
	layerRef    = contentRef + "l."
	configRef   = contentRef + "config"
	snapshotRef = "containerd.io/gc.ref.snapshot."
)

// dropLost forgets content of an image whose file is lost, or has another size, while the
// metadata database still has it. containerd fetches only what the database does not have,
// so a pull would end at the first such file, each time. The caller holds the lease
// of the pull that follows. A layer that is unpacked is not needed, and stays.
func (t *tracker) dropLost(ctx context.Context, target digest.Digest, unpackedBy []transfer.UnpackConfiguration) {
	w := &lostWalk{contents: t.contents, seen: map[digest.Digest]bool{}}
	for _, u := range unpackedBy {
		name := cmp.Or(u.Snapshotter, defaults.DefaultSnapshotter)
		if sn := t.config.Snapshotter(name); sn != nil {
			w.unpackers = append(w.unpackers, unpacker{snapshotRef + name, sn})
		}
	}
	err := w.document(ctx, target)
	for _, d := range w.lost {
		if err == nil {
			err = t.contents.dropIfLost(ctx, d)
		}
	}
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("lost content of %s may not be fetched again", target)
	}
}

// lostWalk lists the content of an image whose file is lost.
type lostWalk struct {
	contents  *contentSources
	unpackers []unpacker // that have to have the image
	seen      map[digest.Digest]bool
	lost      []digest.Digest
}

// unpacker is a snapshotter, and the label by which a config refers to it.
type unpacker struct {
	label       string
	snapshotter snapshots.Snapshotter
}

// document visits an index, a manifest or a config, and what belongs to it.
func (w *lostWalk) document(ctx context.Context, d digest.Digest) error {
	if w.seen[d] {
		return nil
	}
	w.seen[d] = true
	info, err := w.contents.contents.Info(ctx, d)
	if errdefs.IsNotFound(err) {
		return nil // it is of another platform, or has never been here
	}
	if err != nil {
		return err
	}
	if err := w.check(ctx, d); err != nil {
		return err
	}
	var layers []digest.Digest
	for label, value := range info.Labels {
		child := digest.Digest(value)
		switch {
		case !strings.HasPrefix(label, contentRef) || child.Validate() != nil:
		case strings.HasPrefix(label, layerRef):
			layers = append(layers, child)
		default:
			if err := w.document(ctx, child); err != nil {
				return err
			}
		}
	}
	if len(layers) == 0 || w.unpacked(ctx, digest.Digest(info.Labels[configRef])) {
		return nil
	}
	for _, d := range layers {
		if err := w.check(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// check notes content whose file is lost.
func (w *lostWalk) check(ctx context.Context, d digest.Digest) error {
	damage, err := w.contents.damage(ctx, d)
	if damage != "" && !slices.Contains(w.lost, d) {
		w.lost = append(w.lost, d)
	}
	return err
}

// unpacked reports whether the layers below a config are surely unpacked
// wherever they have to be.
func (w *lostWalk) unpacked(ctx context.Context, config digest.Digest) bool {
	info, err := w.contents.contents.Info(ctx, config)
	if err != nil || len(w.unpackers) == 0 {
		return false
	}
	return !slices.ContainsFunc(w.unpackers, func(u unpacker) bool {
		top, err := u.snapshotter.Stat(ctx, info.Labels[u.label])
		return err != nil || top.Kind != snapshots.KindCommitted
	})
}

// damage says what the file of some content lacks that the database has: there is none, or
// it has not the size that the content had when it was committed. "" = nothing, also where
// the database does not have it.
func (s *contentSources) damage(ctx context.Context, d digest.Digest) (string, error) {
	info, err := s.contents.Info(ctx, d)
	if err != nil {
		if errdefs.IsNotFound(err) {
			return "", nil
		}
		return "", err
	}
	r, err := s.contents.ReaderAt(ctx, ocispec.Descriptor{Digest: d})
	switch {
	case errdefs.IsNotFound(err):
		return "is lost", nil
	case err != nil:
		return "", err
	}
	if size := r.Size(); size != info.Size {
		return fmt.Sprintf("has %d of %d bytes", size, info.Size), r.Close()
	}
	return "", r.Close()
}

// dropIfLost forgets content if its file is still lost. Pulls of all scopes, and of all
// namespaces, take turns, since files belong to all: what another has fetched again
// meanwhile must not be forgotten. A file that is there goes first: containerd would take it for
// what is fetched, since it has the name of that. It is broken for all namespaces, of which
// each other misses it then, as one that is lost.
func (s *contentSources) dropIfLost(ctx context.Context, d digest.Digest) error {
	unlock, err := s.drops.Lock(ctx, d)
	if err != nil {
		return err
	}
	defer unlock()
	damage, err := s.damage(ctx, d)
	if err != nil || damage == "" {
		return err
	}
	for _, from := range []Files{s.files, s.contents} {
		if err := from.Delete(ctx, d); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	s.forget(ctx, d)
	prefixlog.G(ctx).Warnf("the file of content %s %s: it is fetched again", d, damage)
	return nil
}
