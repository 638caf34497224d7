// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// labels returns CRI's labels for the records of a reference.
func (p *Puller) labels(name string) map[string]string {
	all := map[string]string{labels.CRIManaged: labels.CRIManagedValue}
	if slices.Contains(p.settings.PinnedImages, name) {
		all[labels.CRIPinned] = labels.CRIPinnedValue
	}
	return all
}

// tagAndDigest returns the two references that CRI shows an image with. The tag
// is "" for an image that was pulled by its digest.
func tagAndDigest(named reference.Named, target digest.Digest) (repoTag, repoDigest string) {
	if _, ok := named.(reference.NamedTagged); ok {
		repoTag = named.String()
	}
	if _, ok := named.(reference.Canonical); ok {
		return repoTag, named.String()
	}
	return repoTag, named.Name() + "@" + target.String()
}

// name makes the record of the image's ID, and has those that the pull has stored marked as
// CRI's. One of these that is not there has been removed since: made anew it would say nothing
// of who may have the image. It goes in CRI's order, and tells CRI's index of each, so that CRI
// shows the image when name returns.
func (p *Puller) name(ctx context.Context, target ocispec.Descriptor, marks map[string]string, imageID string, stored ...string) error {
	for i, name := range append([]string{imageID}, stored...) {
		if name == "" {
			continue
		}
		put := p.markRecord
		if i == 0 {
			put = p.putRecord
		}
		if err := put(ctx, images.Image{Name: name, Target: target, Labels: marks}); err != nil {
			return fmt.Errorf("failed to create image reference %q: %w", name, err)
		}
		if err := p.index.UpdateImage(ctx, name); err != nil {
			return fmt.Errorf("failed to update image store %q: %w", name, err)
		}
	}
	return nil
}

// putRecord creates a record, or changes only what differs from it, so that
// labels of others stay and an unchanged record makes no event.
func (p *Puller) putRecord(ctx context.Context, record images.Image) error {
	for {
		_, err := p.images.Create(ctx, record)
		if !errdefs.IsAlreadyExists(err) {
			return err
		}
		if err := p.updateRecord(ctx, record, changes); !errors.Is(err, pwtransfer.ErrGone) {
			return err
		}
		// Somebody has removed it meanwhile.
	}
}

// markRecord marks a record that the pull has stored as CRI's. One that stands for another image since is left to who
// has moved it: pulls of containerd's own take no turns.
func (p *Puller) markRecord(ctx context.Context, record images.Image) error {
	return p.updateRecord(ctx, record, func(old, record images.Image) []string {
		if old.Target.Digest != record.Target.Digest {
			return nil
		}
		return marks(old, record)
	})
}

// updateRecord updates those fields of a record that is there, or else returns [pwtransfer.ErrGone].
func (p *Puller) updateRecord(ctx context.Context, record images.Image, fields func(old, record images.Image) []string) error {
	old, err := p.images.Get(ctx, record.Name)
	if err == nil {
		paths := fields(old, record)
		if len(paths) == 0 {
			return nil
		}
		_, err = p.images.Update(ctx, record, paths...)
	}
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w: %w", pwtransfer.ErrGone, err)
	}
	return err
}

// changes lists the fields of a record to update.
func changes(old, record images.Image) []string {
	paths := marks(old, record)
	if len(paths) > 0 || old.Target.Digest != record.Target.Digest {
		paths = append(paths, "target")
	}
	return paths
}

// marks lists CRI's labels to update. A pin is only ever set: taking it away is left to CRI.
func marks(old, record images.Image) (paths []string) {
	for _, label := range []string{labels.CRIManaged, labels.CRIPinned} {
		if value, ok := record.Labels[label]; ok && old.Labels[label] != value {
			paths = append(paths, "labels."+label)
		}
	}
	return paths
}
