// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const labelPrefix = "pullwarden.io/"

// record returns an image record of the namespace k8s.io; ok is false where
// there is none.
func (d *daemon) record(ref string) (img images.Image, ok bool) {
	d.t.Helper()
	img, err := d.client.ImageService().Get(d.t.Context(), ref)
	if errdefs.IsNotFound(err) {
		return img, false
	}
	if err != nil {
		d.fatal("read the record of %s: %v", ref, err)
	}
	return img, true
}

// target returns the digest of an image's record, "" where there is none.
func (d *daemon) target(ref string) digest.Digest {
	d.t.Helper()
	img, _ := d.record(ref)
	return img.Target.Digest
}

// labels returns pullwarden's labels on an image's record, without the prefix.
func (d *daemon) labels(ref string) map[string]string {
	d.t.Helper()
	img, ok := d.record(ref)
	if !ok {
		d.fatal("there is no image %s", ref)
	}
	return ownLabels(img)
}

func ownLabels(img images.Image) map[string]string {
	own := map[string]string{}
	for k, v := range img.Labels {
		if name, ok := strings.CutPrefix(k, labelPrefix); ok {
			own[name] = v
		}
	}
	return own
}

// setLabels changes labels of a record; an empty value takes the label away.
func (d *daemon) setLabels(ref string, labels map[string]string) {
	d.t.Helper()
	img, ok := d.record(ref)
	if !ok {
		d.fatal("there is no image %s", ref)
	}
	paths := make([]string, 0, len(labels))
	for k, v := range labels {
		img.Labels[labelPrefix+k] = v
		paths = append(paths, "labels."+labelPrefix+k)
	}
	maps.DeleteFunc(img.Labels, func(_, v string) bool { return v == "" })
	slices.Sort(paths)
	if _, err := d.client.ImageService().Update(d.t.Context(), img, paths...); err != nil {
		d.fatal("change the labels of %s: %v", ref, err)
	}
}

// snapshotable returns why no container could be made from the image, nil if
// one can: all of its content is there and true, and a snapshot can be made
// from it.
func (d *daemon) snapshotable(ctx context.Context, img containerd.Image, snapshotter string) error {
	return d.withSnapshot(ctx, img, snapshotter, func([]mount.Mount, int) error { return nil })
}

// runnable is snapshotable, and looks for the files of each layer in the
// snapshot.
func (d *daemon) runnable(ctx context.Context, ref, snapshotter string) error {
	img, err := d.client.GetImage(ctx, ref)
	if err != nil {
		return err
	}
	return d.withSnapshot(ctx, img, snapshotter, func(mounts []mount.Mount, layers int) error {
		return mount.WithTempMount(ctx, mounts, func(root string) error { return hasLayers(root, layers) })
	})
}

func (d *daemon) withSnapshot(ctx context.Context, img containerd.Image, snapshotter string, f func([]mount.Mount, int) error) (err error) {
	if err := d.contentIsTrue(ctx, img.Target()); err != nil {
		return fmt.Errorf("content of %s: %w", img.Name(), err)
	}
	chain, err := img.RootFS(ctx)
	if err != nil {
		return err
	}
	ctx, done, err := d.client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	sn := d.client.SnapshotService(snapshotter)
	key := "test-" + rand.Text()
	mounts, err := sn.Prepare(ctx, key, identity.ChainID(chain).String())
	if err != nil {
		return fmt.Errorf("prepare a snapshot of %s: %w", img.Name(), err)
	}
	defer func() { err = errors.Join(err, sn.Remove(context.WithoutCancel(ctx), key)) }()
	return f(mounts, len(chain))
}

// contentIsTrue reads all content below desc for this platform.
func (d *daemon) contentIsTrue(ctx context.Context, desc ocispec.Descriptor) error {
	store := d.client.ContentStore()
	return images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		r, err := store.ReaderAt(ctx, desc)
		if err != nil {
			return nil, err
		}
		defer func() { _ = r.Close() }()
		got, err := digest.FromReader(io.NewSectionReader(r, 0, r.Size()))
		if err != nil {
			return nil, err
		}
		if got != desc.Digest {
			return nil, fmt.Errorf("%s has the digest %s", desc.Digest, got)
		}
		return images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default())(ctx, desc)
	}), desc)
}

// hasLayers looks for the file that each layer of a resolvertest image has.
func hasLayers(root string, layers int) error {
	for i := range layers {
		if _, err := os.Stat(filepath.Join(root, fmt.Sprintf("layer-%d", i))); err != nil {
			return err
		}
	}
	return nil
}
