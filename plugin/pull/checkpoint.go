// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// checkpointOf is the annotation by which containerd takes an image for the checkpoint of the container with that name.
const checkpointOf = "org.criu.checkpoint.container.name"

// errCheckpoint is for a checkpoint that is pulled. CRI has one image for all with the same config, of which it makes no
// container as soon as the first of their names stands for a checkpoint: nobody is to do that to others.
var errCheckpoint = fmt.Errorf("it is the checkpoint of a container: of an image that has the same ID containerd would make no container any more: %w", errdefs.ErrFailedPrecondition)

// IsCheckpoint reports whether containerd takes the image of the record of that name for the checkpoint of a container, which
// it reads in the same way. Of a record or document that cannot be read it makes no container.
func (p *Puller) IsCheckpoint(ctx context.Context, name string) bool {
	img, err := p.images.Get(ctx, name)
	return err == nil && p.isCheckpoint(ctx, img.Target)
}

func (p *Puller) isCheckpoint(ctx context.Context, target ocispec.Descriptor) bool {
	text, err := content.ReadBlob(ctx, p.contents, target)
	if err != nil {
		return false
	}
	var top ocispec.Index
	if err := json.Unmarshal(text, &top); err != nil {
		return false
	}
	_, ok := top.Annotations[checkpointOf]
	return ok
}

// verify returns what a plan verifies, and refuses a checkpoint after that: what the plan refuses must tell nothing of the node.
func (p *Puller) verify(plan *pwtransfer.Plan) func(context.Context, ocispec.Descriptor) error {
	if !p.settings.KnowsCheckpoints {
		return plan.Verify
	}
	return func(ctx context.Context, target ocispec.Descriptor) error {
		if plan.Verify != nil {
			if err := plan.Verify(ctx, target); err != nil {
				return err
			}
		}
		if p.isCheckpoint(ctx, target) {
			return errCheckpoint
		}
		return nil
	}
}
