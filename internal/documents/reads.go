// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/quoted"
)

// checkReads returns an error, which is ErrInvalid, for a document that containerd does not read as that
// which it is called, whose own error would say nothing of who is at fault.
func checkReads(ctx context.Context, desc ocispec.Descriptor, data []byte) (err error) {
	switch {
	case namesOthers(desc):
		desc.Data = nil
		_, err = images.Children(ctx, inMemoryProvider(data), desc)
	case images.IsConfigType(desc.MediaType):
		err = json.Unmarshal(data, &ocispec.Image{})
	}
	if err != nil {
		// Of a time that is none, Go quotes a part, in which nobody would find a secret.
		return invalid{fmt.Errorf("read %s: %s", desc.Digest, quoted.Cut(err.Error()))}
	}
	return nil
}

// inMemoryProvider has this as all content.
type inMemoryProvider []byte

// ReaderAt implements content.Provider.
func (p inMemoryProvider) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	return &inMemory{bytes.NewReader(p)}, nil
}
