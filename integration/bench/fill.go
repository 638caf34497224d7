// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

// fill gives both nodes that many images, each with a config and a manifest of
// its own, under that many repositories each, with the records and the labels
// that pulls by CRI would leave. Their one layer is the same, and nothing is
// unpacked.
func (p *pair) fill(ctx context.Context, count, repositories int) error {
	results := make(chan error)
	for _, n := range p.nodes {
		go func() { results <- n.fill(ctx, count, repositories) }()
	}
	return errors.Join(<-results, <-results)
}

func (n *node) fill(ctx context.Context, count, repositories int) (err error) {
	ctx, done, err := n.Client.WithLease(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	layer := []byte("not really a layer, but nobody unpacks it")
	layerDesc := describeBlob(ocispec.MediaTypeImageLayer, layer)
	if err := n.write(ctx, layerDesc, layer, nil); err != nil {
		return err
	}
	const workers = 8
	results := make(chan error, workers)
	for w := range workers {
		go func() {
			for i := w; i < count; i += workers {
				if err := n.addImage(ctx, i, repositories, layerDesc); err != nil {
					results <- fmt.Errorf("%s: add image %d: %w", n.side, i, err)
					return
				}
			}
			results <- nil
		}()
	}
	for range workers {
		err = errors.Join(err, <-results)
	}
	if err != nil {
		return err
	}
	return n.Until(ctx, fmt.Sprintf("CRI knows %d images", count), func(ctx context.Context) error {
		resp, err := n.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		if err == nil && len(resp.GetImages()) < count {
			err = fmt.Errorf("it lists %d images", len(resp.GetImages()))
		}
		return err
	})
}

func (n *node) addImage(ctx context.Context, i, repositories int, layer ocispec.Descriptor) error {
	now := time.Now().UTC()
	config, err := json.Marshal(ocispec.Image{
		Created: &now, Author: fmt.Sprint(i), Platform: platforms.DefaultSpec(),
		Config: ocispec.ImageConfig{Cmd: []string{"/app"}, Env: []string{"PATH=/usr/bin:/bin"}},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
	})
	if err != nil {
		return err
	}
	configDesc := describeBlob(ocispec.MediaTypeImageConfig, config)
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configDesc, Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		return err
	}
	target := describeBlob(ocispec.MediaTypeImageManifest, manifest)
	if err := n.write(ctx, configDesc, config, nil); err != nil {
		return err
	}
	err = n.write(ctx, target, manifest, map[string]string{
		"containerd.io/gc.ref.content.config": configDesc.Digest.String(),
		"containerd.io/gc.ref.content.l.0":    layer.Digest.String(),
	})
	if err != nil {
		return err
	}
	for r := range repositories {
		repository := fmt.Sprintf("%s/others/%d/app-%d", registry, r, i)
		state := store.State{
			PullSource: repository + ":1", PulledAt: now,
			Verified: store.Verified{Digest: target.Digest, At: now, By: registry},
			Access:   map[store.Fingerprint]time.Time{store.Anonymous: now},
		}
		for _, name := range []string{repository + ":1", repository + "@" + target.Digest.String()} {
			if err := n.record(ctx, name, target, state); err != nil {
				return err
			}
		}
	}
	return n.record(ctx, configDesc.Digest.String(), target, store.State{}) // the ID says nothing of a source
}

// record makes an image record as CRI and pullwarden leave them.
func (n *node) record(ctx context.Context, name string, target ocispec.Descriptor, state store.State) error {
	labels := state.Labels()
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	labels["io.cri-containerd.image"] = "managed"
	_, err := n.Client.ImageService().Create(ctx, images.Image{Name: name, Target: target, Labels: labels})
	return err
}

func (n *node) write(ctx context.Context, desc ocispec.Descriptor, blob []byte, labels map[string]string) error {
	return content.WriteBlob(ctx, n.Client.ContentStore(), desc.Digest.String(), bytes.NewReader(blob), desc, content.WithLabels(labels))
}

func describeBlob(mediaType string, b []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
}
