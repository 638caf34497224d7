// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// space is that of JSON.
const space = " \t\r\n"

// maxHead is how much of content is read to see whether it may be a document: the first header of an
// archive.
const maxHead = 512

// OnlyLayers is content of which nothing can be read that may be an index, a manifest or a config,
// whoever calls it a layer: it is as where the node has it not. A manifest can name as layers what its
// registry has never delivered, since nobody fetches a layer whose snapshot is there, and must not
// tell so whether the node has a document of others.
type OnlyLayers struct{ content.Provider }

// ReaderAt implements content.Provider.
func (l OnlyLayers) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := l.Provider.ReaderAt(ctx, desc)
	if err == nil && MayBe(r) {
		return nil, errors.Join(fmt.Errorf("content digest %v: %w", desc.Digest, errdefs.ErrNotFound), r.Close())
	}
	return r, err
}

// MayBe reports whether content may be an index, a manifest or a config, as its bytes say. Those are
// JSON, which has no bytes for control, as archives have in their first header, compressed or not. In
// doubt it may.
func MayBe(r content.ReaderAt) bool {
	if r.Size() > docker.MaxManifestSize {
		return false
	}
	head := make([]byte, min(r.Size(), maxHead))
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, int64(len(head))), head); err != nil || len(head) == 0 {
		return true
	}
	return strings.ContainsRune("{"+space, rune(head[0])) && !slices.ContainsFunc(head, func(b byte) bool {
		return b < ' ' && !strings.ContainsRune(space, rune(b))
	})
}

// IsLayer reports whether containerd unpacks that of a manifest's layers.
func IsLayer(desc ocispec.Descriptor) bool { return images.IsLayerType(desc.MediaType) }
