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

	"github.com/pullwarden/pullwarden/internal/labels"
)

// KeepProofs runs a write that replaces all labels of a record, as those of containerd's pulls without its transfer service
// are, and returns its error. It gets the labels to write: those that the record has and that say of the target who may have it, those of a
// pin that is pullwarden's, what sources makes of what it says of where the content came from, and the given ones, but for those of who may have
// it, or of where it came from, which a client may have read before a refusal, or before another pull. Where the record has another target, or there
// is none, it gets the given ones. It runs as in WriteProofs: beside no revocation.
func (s *Store) KeepProofs(ctx context.Context, name string, target digest.Digest, given map[string]string, sources func(before State) State, write func(all map[string]string) error) error {
	if _, err := namespaces.NamespaceRequired(ctx); err != nil {
		return err
	}
	return s.WriteProofs(ctx, func() error {
		img, err := s.images.Get(ctx, name)
		if errdefs.IsNotFound(err) || err == nil && img.Target.Digest != target {
			return write(given)
		}
		if err != nil {
			return fmt.Errorf("read image record %q: %w", name, err)
		}
		return write(keeping(img.Labels, given, sources(Decode(name, target, img.Labels)).content()))
	})
}

func keeping(before, given, content map[string]string) map[string]string {
	all := maps.Clone(before)
	maps.DeleteFunc(all, func(label, _ string) bool { return !strings.HasPrefix(label, Prefix) && label != labels.CRIPinned })
	all = labels.Present(labels.Overlay(all, content))
	readBack := given[LabelPinned] != "" // the pin is pullwarden's, as of when the client has read it
	for label, value := range given {
		switch {
		case strings.HasPrefix(label, Prefix), label == labels.CRIPinned && readBack:
		case label == labels.CRIPinned && value != "":
			delete(all, LabelPinned) // the client's own
			all[label] = value
		default:
			all[label] = value
		}
	}
	if len(all) == 0 {
		return given
	}
	return all
}
