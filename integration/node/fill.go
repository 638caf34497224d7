// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// Fill gives the node that many images, each with a config and a manifest of
// its own, under that many repositories of a registry each, with the records
// and the labels that pulls by CRI would leave. Their one layer is the same, and
// nothing is unpacked. It waits until CRI lists them.
func (n *Node) Fill(ctx context.Context, registry string, count, repositories int) (err error) {
	ctx, done, err := n.Client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	layer, err := n.writeBlob(ctx, ocispec.MediaTypeImageLayer, []byte("not really a layer, but nobody unpacks it"), nil)
	if err != nil {
		return err
	}
	workers, workersCtx := errgroup.WithContext(ctx)
	workers.SetLimit(8)
	for i := range count {
		workers.Go(func() error {
			if err := n.addImage(workersCtx, registry, i, repositories, layer); err != nil {
				return fmt.Errorf("add image %d: %w", i, err)
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	return n.Until(ctx, fmt.Sprintf("CRI knows %d images", count), func(ctx context.Context) error {
		all, err := n.List(ctx)
		if err == nil && len(all) < count {
			err = fmt.Errorf("it lists %d images", len(all))
		}
		return err
	})
}

// FilledRepository returns a repository of an image of Fill. The image's tag is
// 1.
func FilledRepository(registry string, repository, image int) string {
	return fmt.Sprintf("%s/others/%d/app-%d", registry, repository, image)
}

func (n *Node) addImage(ctx context.Context, registry string, i, repositories int, layer ocispec.Descriptor) error {
	now := time.Now().UTC()
	config, err := n.writeJSON(ctx, ocispec.MediaTypeImageConfig, nil, ocispec.Image{
		Created: &now, Author: fmt.Sprint(i), Platform: platforms.DefaultSpec(),
		Config: ocispec.ImageConfig{Cmd: []string{"/app"}, Env: []string{"PATH=/usr/bin:/bin"}},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := n.writeJSON(ctx, ocispec.MediaTypeImageManifest, map[string]string{
		"containerd.io/gc.ref.content.config": config.Digest.String(),
		"containerd.io/gc.ref.content.l.0":    layer.Digest.String(),
	}, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config, Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return err
	}
	at := now.Format(time.RFC3339)
	for r := range repositories {
		repository := FilledRepository(registry, r, i)
		own := map[string]string{
			"pull-source": repository + ":1", "pulled-at": at, "access.anonymous": at + " " + registry,
			"verified-digest": manifest.Digest.String(), "verified-at": at, "verified-by": registry,
		}
		for _, name := range []string{repository + ":1", repository + "@" + manifest.Digest.String()} {
			own["record"] = manifest.Digest.String() + " " + name
			if err := n.addRecord(ctx, name, manifest, own); err != nil {
				return err
			}
		}
	}
	return n.addRecord(ctx, config.Digest.String(), manifest, nil) // the ID says nothing of a source
}

// addRecord makes an image record as CRI and pullwarden leave them, with these
// labels of pullwarden's.
func (n *Node) addRecord(ctx context.Context, name string, target ocispec.Descriptor, own map[string]string) error {
	labels := map[string]string{"io.cri-containerd.image": "managed"}
	for key, value := range own {
		labels[LabelPrefix+key] = value
	}
	_, err := n.Client.ImageService().Create(ctx, images.Image{Name: name, Target: target, Labels: labels})
	return err
}

func (n *Node) writeJSON(ctx context.Context, mediaType string, labels map[string]string, v any) (ocispec.Descriptor, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return n.writeBlob(ctx, mediaType, b, labels)
}

func (n *Node) writeBlob(ctx context.Context, mediaType string, b []byte, labels map[string]string) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	return desc, content.WriteBlob(ctx, n.Client.ContentStore(), desc.Digest.String(), bytes.NewReader(b), desc, content.WithLabels(maps.Clone(labels)))
}
