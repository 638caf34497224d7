// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/quoted"
)

// CheckImage returns an error, which is ErrInvalid, for an image that CRI cannot read, or reads in
// another way than runs: it would show no record of it. Of what runs and is not on the node the
// error is errdefs.ErrNotFound.
func CheckImage(ctx context.Context, contents content.Provider, target ocispec.Descriptor) error {
	if err := checkWay(ctx, contents, target); err != nil {
		return err
	}
	manifest, err := images.Manifest(ctx, Bounded{contents}, target, platforms.Default())
	if err != nil {
		return fmt.Errorf("manifest of %s: %w", target.Digest, err)
	}
	data, err := content.ReadBlob(ctx, Bounded{contents}, manifest.Config)
	if err != nil {
		return fmt.Errorf("config %s: %w", manifest.Config.Digest, err)
	}
	if err := json.Unmarshal(data, &ocispec.Image{}); err != nil {
		// Of a time that is none, Go quotes a part, in which nobody would find a secret.
		return In(manifest.Config.Digest, invalid{fmt.Errorf("config %s: %s", manifest.Config.Digest, quoted.Cut(err.Error()))})
	}
	return nil
}

// checkWay checks the documents from the target to the config of what runs, as they are on the node.
func checkWay(ctx context.Context, contents content.Provider, target ocispec.Descriptor) error {
	for desc := target; ; {
		if err := (Bounded{contents}).Check(ctx, desc); err != nil {
			return In(desc.Digest, err)
		}
		children, err := images.Children(ctx, Bounded{contents}, desc)
		if err != nil {
			return fmt.Errorf("read %s: %w", desc.Digest, err)
		}
		if err := CheckChildren(ctx, desc, children); err != nil {
			return In(desc.Digest, err)
		}
		switch {
		case images.IsIndexType(desc.MediaType):
			if children, err = forNode(listed(children))(ctx, desc); err != nil {
				return fmt.Errorf("index %s: %w", desc.Digest, err)
			}
		case len(children) == 0: // a config, or nothing that CRI knows
			return nil
		}
		desc = children[0]
	}
}
