// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// link is a layer of the chain that a container runs. The config names it.
type link struct {
	diffID  digest.Digest
	chainID string
	below   string        // the chain ID of the link that it stands on
	layer   digest.Digest // that the manifest has in its place
}

// is reports whether a snapshot is one of the link, and complete.
func (l link) is(info snapshots.Info) bool {
	return info.Kind == snapshots.KindCommitted && info.Parent == l.below
}

// unpackedContent is content that containerd has unpacked to some diff ID.
type unpackedContent struct {
	created time.Time
	source  provenance.Provenance
}

// Unpacked returns the hosts from which the layers came that a container of the image of target
// stands on by that snapshotter, and whether all are known, and known to be layers of that image's manifest. It changes nothing.
func (s *Service) Unpacked(ctx context.Context, target ocispec.Descriptor, snapshotter string) (from provenance.Provenance, known bool, err error) {
	t := s.tracker.Load()
	if t == nil {
		return from, false, nil
	}
	manifest, err := images.Manifest(ctx, t.contents.documents(), target, platforms.Default())
	if err != nil {
		return from, false, err
	}
	w := &imageWalk{contents: t.contents, snapshotters: t.snapshotters([]transfer.UnpackConfiguration{{Snapshotter: snapshotter}})}
	if err := w.chain(ctx, manifest, true); err != nil {
		return from, false, err
	}
	return w.parts.from, !w.parts.unknown && !w.borrowed && w.parts.from.More == 0, nil
}

// chain visits the layers that a container runs. containerd finds their snapshots by the
// diff IDs of the config alone, whatever layers the manifest has, and fetches and compares
// none for a snapshot that is there. So a layer of the manifest tells where a snapshot came
// from only if it is known to unpack to the diff ID. The source of an image is unknown whose
// config and manifest do not belong together. What does not run need not be unpacked.
func (w *imageWalk) chain(ctx context.Context, manifest ocispec.Manifest, runs bool) error {
	links, err := w.contents.links(ctx, manifest)
	if errdefs.IsNotFound(err) {
		w.parts.unknown = w.parts.unknown || runs
		return nil
	}
	if err != nil {
		w.parts.unknown = true
		return ctx.Err()
	}
	for _, l := range links {
		if err := w.link(ctx, l, runs); err != nil {
			return err
		}
	}
	return nil
}

// links returns the chain of an image, the lowest first. The error is errdefs.ErrNotFound where its config is not there.
func (s *contentSources) links(ctx context.Context, manifest ocispec.Manifest) (links []link, err error) {
	diffIDs, err := documents.DiffIDs(ctx, s.contents, manifest.Config)
	if err != nil {
		return nil, err
	}
	layers := documents.Layers(manifest)
	if len(diffIDs) > 0 && len(diffIDs) != len(layers) {
		return nil, fmt.Errorf("config %s has %d layers, and its manifest %d", manifest.Config.Digest, len(diffIDs), len(layers))
	}
	chainIDs := identity.ChainIDs(slices.Clone(diffIDs))
	below := ""
	for i, diffID := range diffIDs {
		l := link{diffID, chainIDs[i].String(), below, layers[i].Digest}
		links, below = append(links, l), l.chainID
	}
	return links, nil
}

// link visits the snapshots of a layer. Where there is none yet, one is made of the layer that
// the manifest has, or later, by another image. One that stands on others than the link is that of
// a stack of layers, whose chain ID the config names as a diff ID: what is known of a snapshot is
// where its own layer came from alone.
func (w *imageWalk) link(ctx context.Context, l link, runs bool) error {
	there := false
	for _, sn := range w.snapshotters {
		info, err := sn.Stat(ctx, l.chainID)
		switch {
		case errdefs.IsNotFound(err) || err == nil && info.Kind != snapshots.KindCommitted:
			continue
		case err != nil:
			return fmt.Errorf("snapshot %s: %w", l.chainID, err)
		}
		there = true
		if !l.is(info) {
			w.parts.unknown = true
			continue
		}
		p, isOwn, err := w.snapshot(ctx, sn, info, l)
		if err != nil {
			return err
		}
		w.borrowed = w.borrowed || runs && !isOwn
		w.parts.add(p)
	}
	if there || !runs {
		return nil
	}
	own, known, err := w.unpacksTo(ctx, l)
	if !known {
		own = unpackedContent{}
	}
	w.parts.add(own.source)
	return err
}

// snapshot returns where the layer in a snapshot came from: the layer in the manifest, if it was there when the
// snapshot was made and unpacks to the same, or else what is written on the snapshot, or all other content of which
// it may have been made. It writes that to the snapshot where what tells it may go: the images of others, or the
// layer itself, where layers are discarded. isOwn says that it is known to be of the layer in the manifest.
func (w *imageWalk) snapshot(ctx context.Context, sn snapshots.Snapshotter, snapshot snapshots.Info, l link) (p provenance.Provenance, isOwn bool, err error) {
	own, ok, err := w.unpacksTo(ctx, l)
	if err != nil {
		return p, false, err
	}
	ok = ok && !own.created.After(snapshot.Created)
	isKnown := isUnpackedOf(snapshot.Labels, l.layer)
	isOwn = ok || isKnown
	written := decodeLabels(snapshot.Labels)
	tells := written.Known()
	p = own.source
	switch {
	case ok && own.source.Known():
		tells = !w.keep || written.Known() && (isKnown || !hasRoom(snapshot.Labels, wasUnpacked))
	case written.Known():
		p = written
	case !ok:
		p, err = w.madeOf(ctx, snapshot.Created, l.diffID)
	}
	if err != nil || !p.Known() || !w.writes || tells {
		return p, isOwn, err
	}
	labels := map[string]string{}
	if !written.Known() {
		labels = encodeLabels(p)
	}
	if ok {
		labels[labelUnpacked+l.layer.String()] = wasUnpacked
	}
	if _, err := sn.Update(ctx, snapshots.Info{Name: snapshot.Name, Labels: labels}, pathsOf(labels)...); err != nil {
		warnNotRecorded(ctx, l.layer, err)
	}
	return p, isOwn, nil
}

// madeOf returns the sources of all content of which a snapshot may have been made at that time. They are
// zero where there is none, or one of unknown source. Content that came later made nothing.
func (w *imageWalk) madeOf(ctx context.Context, at time.Time, diffID digest.Digest) (all provenance.Provenance, err error) {
	if err := w.listUnpacked(ctx); err != nil {
		return provenance.Provenance{}, err
	}
	for _, c := range w.unpacked[diffID] {
		switch {
		case c.created.After(at):
		case !c.source.Known():
			return provenance.Provenance{}, nil
		default:
			all = all.Add(c.source)
		}
	}
	return all, nil
}

// unpacksTo reports whether the layer of the manifest is known to unpack to the diff ID:
// containerd has done so, or it is not compressed.
func (w *imageWalk) unpacksTo(ctx context.Context, l link) (own unpackedContent, ok bool, err error) {
	info, err := w.contents.contents.Info(ctx, l.layer)
	switch {
	case errdefs.IsNotFound(err):
		return own, false, nil
	case err != nil:
		return own, false, err
	}
	return unpackedOf(info), l.layer == l.diffID || info.Labels[labels.LabelUncompressed] == l.diffID.String(), nil
}

// listUnpacked lists the content that was unpacked, once.
func (w *imageWalk) listUnpacked(ctx context.Context) error {
	if w.unpacked != nil {
		return nil
	}
	w.unpacked = map[digest.Digest][]unpackedContent{}
	return w.contents.contents.Walk(ctx, func(info content.Info) error {
		diffID := digest.Digest(info.Labels[labels.LabelUncompressed])
		w.unpacked[diffID] = append(w.unpacked[diffID], unpackedOf(info))
		return nil
	}, fmt.Sprintf("labels.%q", labels.LabelUncompressed))
}

func unpackedOf(info content.Info) unpackedContent {
	p := decodeLabels(info.Labels)
	p.Reference = "" // a layer belongs to many images
	return unpackedContent{created: info.CreatedAt, source: p}
}
