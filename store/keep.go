// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// KeepProofs runs a write that replaces a record, as those of containerd's pulls without its transfer service do, and returns its error.
// It gets the record to write. Where that is of the same digest as the one that is there, it has the target of that, of which a host may
// have claimed another size or type meanwhile, its labels of pullwarden's, but for what sources makes of what it says of where the content
// came from, its pin, and the given labels of others. A client may have read the given ones of pullwarden's before a refusal, or another
// pull. It runs as in WriteProofs: beside no revocation.
func (s *Store) KeepProofs(ctx context.Context, given images.Image, sources func(before State) State, write func(images.Image) error) error {
	if _, err := namespaces.NamespaceRequired(ctx); err != nil {
		return err
	}
	return s.WriteProofs(ctx, func() error {
		now, err := s.images.Get(ctx, given.Name)
		if errdefs.IsNotFound(err) || err == nil && now.Target.Digest != given.Target.Digest {
			return write(given)
		}
		if err != nil {
			return fmt.Errorf("read image record %q: %w", given.Name, err)
		}
		content := sources(Decode(now.Name, now.Target.Digest, now.Labels)).content()
		given.Target, given.Labels = now.Target, keeping(now.Labels, given.Labels, content)
		return write(given)
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
