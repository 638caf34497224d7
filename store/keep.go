// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// KeepProofs runs a write that replaces all labels of a record, as those of containerd's pulls without its transfer service
// are, and returns its error. The write gets the labels that the record is to have besides: those that say of the target who may
// have it. Where the record has another target, or there is none, it gets none. It runs as in WriteProofs: beside no revocation.
func (s *Store) KeepProofs(ctx context.Context, name string, target digest.Digest, write func(keep map[string]string) error) error {
	if _, err := namespaces.NamespaceRequired(ctx); err != nil {
		return err
	}
	return s.WriteProofs(ctx, func() error {
		img, err := s.images.Get(ctx, name)
		if errdefs.IsNotFound(err) || err == nil && img.Target.Digest != target {
			return write(nil)
		}
		if err != nil {
			return fmt.Errorf("read image record %q: %w", name, err)
		}
		keep := maps.Clone(img.Labels)
		maps.DeleteFunc(keep, func(label, _ string) bool { return !isOfAccess(label) })
		return write(keep)
	})
}

// isOfAccess reports whether a label says who may have an image, or of which check or host that is known.
func isOfAccess(label string) bool {
	label = strings.TrimSuffix(label, earlier)
	return label == LabelRecord || label == LabelVerifiedBy || isOfCheck(label) || restricts(label)
}
