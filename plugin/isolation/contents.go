// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// contents is the content store as one pull sees it: of what is not finished, it
// has what pulls of the same scope have begun, and nothing else.
type contents struct {
	content.Store
	scope Scope
	// labels are those that content is committed with; nil = none.
	labels Labels
	// own is what the pull may see of documents; nil = everything, for what is no pull of a plan's.
	own *ownDocuments
	// layers and progress are told what the pull reads and receives; nil = nobody is.
	layers   *layers
	progress *progress
	// followsURLs is called before content is fetched that may come by urls; nil = nobody
	// is told.
	followsURLs func()

	mu sync.Mutex
	// discarded are the bytes that were thrown away, by reference. They count as
	// progress: those that are fetched in their place would not be seen otherwise.
	discarded map[string]int64
	// open are the references of what this pull is writing.
	open map[string]bool
}

// viewOf returns the content store as the pull of the context sees it.
func viewOf(ctx context.Context, store content.Store) *contents {
	c := &contents{Store: store, scope: ScopeOf(ctx), labels: labelsOf(ctx)}
	if OwnDocuments(ctx) || c.scope != (Scope{}) {
		c.own = &ownDocuments{all: OwnDocuments(ctx), delivered: map[digest.Digest]bool{}, others: map[digest.Digest]bool{}}
	}
	return c
}

// View returns the content store as pulls of that scope see it. Content must not be written
// to it.
func View(store content.Store, scope Scope) content.Store {
	return &contents{Store: store, scope: scope}
}

// suffix is behind every reference in the store. Without a scope there is none.
func (c *contents) suffix() string {
	if c.scope.source == "" {
		return ""
	}
	return "@pullwarden." + c.scope.source
}

// Writer begins or continues content of this scope.
func (c *contents) Writer(ctx context.Context, opts ...content.WriterOpt) (content.Writer, error) {
	var o content.WriterOpts
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	if o.Ref == "" {
		return nil, fmt.Errorf("the reference of unfinished content is empty: %w", errdefs.ErrInvalidArgument)
	}
	if len(o.Desc.URLs) > 0 && c.followsURLs != nil {
		c.followsURLs()
	}
	w := &writer{contents: c, ref: o.Ref, desc: o.Desc, hidden: c.opens(ctx, o.Desc), ctx: ctx}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Status returns that of content of this scope.
func (c *contents) Status(ctx context.Context, ref string) (content.Status, error) {
	status, err := c.Store.Status(ctx, ref+c.suffix())
	return c.seen(status), err
}

// ListStatuses lists what this pull is writing. All that is unfinished on the node would take as
// many reads of files as others have begun downloads. Filters are not supported.
func (c *contents) ListStatuses(ctx context.Context, filters ...string) (own []content.Status, err error) {
	if len(filters) > 0 {
		return nil, fmt.Errorf("list unfinished content by filters: %w", errdefs.ErrNotImplemented)
	}
	c.mu.Lock()
	open := slices.Sorted(maps.Keys(c.open))
	c.mu.Unlock()
	for _, ref := range open {
		status, err := c.Status(ctx, ref)
		switch {
		case err == nil:
			own = append(own, status)
		case !errdefs.IsNotFound(err):
			return nil, err
		}
	}
	return own, nil
}

// setOpen takes note that the pull writes something, or does not any more.
func (c *contents) setOpen(ref string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]bool{}
	}
	if delete(c.open, ref); is {
		c.open[ref] = true
	}
}

// Abort throws unfinished content of this scope away.
func (c *contents) Abort(ctx context.Context, ref string) error {
	return c.Store.Abort(ctx, ref+c.suffix())
}

// seen returns a status of the store as the pull sees it.
func (c *contents) seen(status content.Status) content.Status {
	status.Ref = strings.TrimSuffix(status.Ref, c.suffix())
	c.mu.Lock()
	defer c.mu.Unlock()
	status.Offset += c.discarded[status.Ref]
	return status
}

func (c *contents) addDiscarded(ref string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.discarded == nil {
		c.discarded = map[string]int64{}
	}
	c.discarded[ref] += bytes
}
