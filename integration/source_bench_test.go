// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkListImages lists 1,000 images through CRI, with containerd as it is
// and with pullwarden. What is left between them are the longer answers.
func BenchmarkListImages(b *testing.B) {
	d := start(b)
	d.fill(1000)
	for _, bm := range []struct {
		name string
		opt  option
	}{
		{"stock", onlySection()},
		{"pullwarden", onlySection("enabled = true")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			d.t = b
			d.restart(bm.opt)
			want(b, "images", len(d.listed()), 1000)
			for b.Loop() {
				if _, err := d.images.ListImages(b.Context(), &runtimeapi.ListImagesRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	d.t = b
}

// fill makes images of nothing but a manifest and a config, with the records
// that pulls leave behind.
func (d *daemon) fill(n int) {
	d.t.Helper()
	ctx, done, err := d.client.WithLease(d.t.Context())
	if err != nil {
		d.fatal("make a lease: %v", err)
	}
	defer func() { _ = done(context.WithoutCancel(ctx)) }()
	for i := range n {
		if err := d.fillOne(ctx, i); err != nil {
			d.fatal("make image %d: %v", i, err)
		}
	}
}

func (d *daemon) fillOne(ctx context.Context, i int) error {
	config, err := d.blob(ctx, ocispec.MediaTypeImageConfig, nil, ocispec.Image{
		Author: fmt.Sprint(i), Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}, RootFS: ocispec.RootFS{Type: "layers"},
	})
	if err != nil {
		return err
	}
	manifest, err := d.blob(ctx, ocispec.MediaTypeImageManifest, map[string]string{"containerd.io/gc.ref.content.config": config.Digest.String()},
		ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config})
	if err != nil {
		return err
	}
	known := map[string]string{
		"io.cri-containerd.image":       "managed",
		labelPrefix + "pull-source":     fmt.Sprintf("mirror.test:5000/team/app-%d:1", i),
		labelPrefix + "content-sources": "mirror.test:5000,registry.test",
		labelPrefix + "pulled-at":       time.Now().UTC().Format(time.RFC3339),
		labelPrefix + "verified-digest": manifest.Digest.String(),
		labelPrefix + "verified-at":     time.Now().UTC().Format(time.RFC3339),
		labelPrefix + "verified-by":     "mirror.test:5000",
	}
	repository := fmt.Sprintf("registry.test/team/app-%d", i)
	for name, labels := range map[string]map[string]string{
		config.Digest.String():                      {"io.cri-containerd.image": "managed"},
		repository + ":1":                           known,
		repository + "@" + manifest.Digest.String(): known,
	} {
		if _, err := d.client.ImageService().Create(ctx, images.Image{Name: name, Target: manifest, Labels: labels}); err != nil {
			return err
		}
	}
	return nil
}

// blob stores v as JSON.
func (d *daemon) blob(ctx context.Context, mediaType string, labels map[string]string, v any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return desc, content.WriteBlob(ctx, d.client.ContentStore(), desc.Digest.String(), bytes.NewReader(data), desc, content.WithLabels(labels))
}
