// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/opencontainers/go-digest"
)

// Labels returns the labels that some content gets. It is called when the content is complete
// and is about to be committed, with the context of that.
type Labels func(ctx context.Context, d digest.Digest) map[string]string

type labelsKey struct{}

// WithLabels returns a context for a pull that commits content with labels, in the
// same transaction. A label that containerd would not store is left out.
func WithLabels(ctx context.Context, of Labels) context.Context {
	return context.WithValue(ctx, labelsKey{}, of)
}

func labelsOf(ctx context.Context) Labels {
	of, _ := ctx.Value(labelsKey{}).(Labels)
	return of
}

// labelled returns an option that adds the labels of some content.
func (c *contents) labelled(ctx context.Context, d digest.Digest) content.Opt {
	return func(info *content.Info) error {
		if c.labels == nil || d == "" {
			return nil
		}
		all := maps.Clone(info.Labels)
		if all == nil {
			all = map[string]string{}
		}
		for key, value := range c.labels(ctx, d) {
			if labels.Validate(key, value) == nil {
				all[key] = value
			}
		}
		info.Labels = all
		return nil
	}
}

const labelPath = "labels."

// Update changes content, unless it has all the labels already: a transaction that writes costs
// the disk two flushes, and the pull those of all others in front of it.
func (c *contents) Update(ctx context.Context, info content.Info, fieldpaths ...string) (content.Info, error) {
	if len(fieldpaths) > 0 || c.own != nil && c.own.all {
		now, err := c.Info(ctx, info.Digest)
		if err != nil {
			return content.Info{}, err
		}
		changes := func(path string) bool {
			label, ok := strings.CutPrefix(path, labelPath)
			return !ok || now.Labels[label] != info.Labels[label]
		}
		if len(fieldpaths) > 0 && !slices.ContainsFunc(fieldpaths, changes) {
			return now, nil
		}
	}
	return c.Store.Update(ctx, info, fieldpaths...)
}
