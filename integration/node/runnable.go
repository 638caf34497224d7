// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Snapshotable returns why no container could be made from the image, nil if
// one can: all of its content is there and true, and a snapshot can be made
// from it.
func (n *Node) Snapshotable(ctx context.Context, img containerd.Image, snapshotter string) error {
	return n.withSnapshot(ctx, img, snapshotter, func([]mount.Mount, int) error { return nil })
}

// Runnable is Snapshotable by name, and looks for the files of each layer in the
// snapshot.
func (n *Node) Runnable(ctx context.Context, ref, snapshotter string) error {
	img, err := n.Client.GetImage(ctx, ref)
	if err != nil {
		return err
	}
	return n.withSnapshot(ctx, img, snapshotter, func(mounts []mount.Mount, layers int) error {
		return mount.WithTempMount(ctx, mounts, func(root string) error { return hasLayers(root, layers) })
	})
}

func (n *Node) withSnapshot(ctx context.Context, img containerd.Image, snapshotter string, f func([]mount.Mount, int) error) (err error) {
	if err := n.contentIsTrue(ctx, img.Target()); err != nil {
		return fmt.Errorf("content of %s: %w", img.Name(), err)
	}
	chain, err := img.RootFS(ctx)
	if err != nil {
		return err
	}
	ctx, done, err := n.Client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	sn := n.Client.SnapshotService(snapshotter)
	key := "node-" + rand.Text()
	mounts, err := sn.Prepare(ctx, key, identity.ChainID(chain).String())
	if err != nil {
		return fmt.Errorf("prepare a snapshot of %s: %w", img.Name(), err)
	}
	defer func() { err = errors.Join(err, sn.Remove(context.WithoutCancel(ctx), key)) }()
	return f(mounts, len(chain))
}

// contentIsTrue reads all content below desc for this platform. Layers may be
// discarded, where the node is told so.
func (n *Node) contentIsTrue(ctx context.Context, desc ocispec.Descriptor) error {
	store := n.Client.ContentStore()
	return images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		got, err := digestOf(ctx, store, desc)
		switch {
		case errdefs.IsNotFound(err) && images.IsLayerType(desc.MediaType) && n.Options.Discards():
			return nil, nil
		case err != nil:
			return nil, err
		case got != desc.Digest:
			return nil, fmt.Errorf("%s has the digest %s", desc.Digest, got)
		}
		return images.FilterPlatforms(images.ChildrenHandler(store), platforms.Default())(ctx, desc)
	}), desc)
}

// digestOf reads content, which may be removed meanwhile.
func digestOf(ctx context.Context, provider content.Provider, desc ocispec.Descriptor) (digest.Digest, error) {
	r, err := provider.ReaderAt(ctx, desc)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	d, err := digest.FromReader(io.NewSectionReader(r, 0, r.Size()))
	if status.Code(err) == codes.NotFound { // reads give gRPC's error before containerd 2.4
		err = errgrpc.ToNative(err)
	}
	return d, err
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
