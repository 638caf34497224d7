// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// countedStore counts the changes of content.
type countedStore struct {
	content.Store
	updates int
}

func (s *countedStore) Update(ctx context.Context, info content.Info, fieldpaths ...string) (content.Info, error) {
	s.updates++
	return s.Store.Update(ctx, info, fieldpaths...)
}

// Content is committed with its labels, and those of the caller's, but for what the store
// refuses.
func TestCommitWithLabels(t *testing.T) {
	ctx, view := newContents(t)
	c := view(alice)
	c.labels = labelsOf(WithLabels(ctx, func(_ context.Context, d digest.Digest) map[string]string {
		return map[string]string{"of": d.String(), "long": strings.Repeat("x", 5000)}
	}))
	own := map[string]string{"own": "label"}
	err := content.WriteBlob(ctx, c, ref, strings.NewReader(string(layer)), desc, content.WithLabels(own))
	check(t, err)
	info, err := c.Info(ctx, desc.Digest)
	check(t, err)
	if want := map[string]string{"own": "label", "of": desc.Digest.String()}; !maps.Equal(info.Labels, want) {
		t.Errorf("got %v, want %v", info.Labels, want)
	}
	if len(own) != 1 {
		t.Errorf("the caller's labels have become %v", own)
	}
}

// Content that has the labels already is not written.
func TestUpdateOfLabels(t *testing.T) {
	ctx, view := newContents(t)
	c := view(alice)
	check(t, content.WriteBlob(ctx, c, ref, strings.NewReader(string(layer)), desc, content.WithLabels(map[string]string{"a": "1", "b": "2"})))
	counted := &countedStore{Store: c.Store}
	c.Store = counted
	for _, test := range []struct {
		what   string
		labels map[string]string
		paths  []string
		writes int
	}{
		{"the same", map[string]string{"a": "1", "b": "2"}, []string{"labels.a", "labels.b"}, 0},
		{"one that is not meant", map[string]string{"a": "1", "b": "x"}, []string{"labels.a"}, 0},
		{"none taken away", nil, []string{"labels.c"}, 0},
		{"another value", map[string]string{"a": "1", "b": "3"}, []string{"labels.a", "labels.b"}, 1},
		{"one taken away", nil, []string{"labels.a"}, 1},
		{"all", map[string]string{"b": "3"}, []string{"labels"}, 1},
		{"all, without paths", map[string]string{"b": "3"}, nil, 1},
	} {
		counted.updates = 0
		info, err := c.Update(ctx, content.Info{Digest: desc.Digest, Labels: test.labels}, test.paths...)
		check(t, err)
		if counted.updates != test.writes {
			t.Errorf("%s: %d writes, want %d", test.what, counted.updates, test.writes)
		}
		if now, err := c.Info(ctx, desc.Digest); err != nil || !maps.Equal(now.Labels, info.Labels) {
			t.Errorf("%s: got %v, it has %v, %v", test.what, info.Labels, now.Labels, err)
		}
	}
	if _, err := c.Update(ctx, content.Info{Digest: digest.FromString("nothing")}, "labels.a"); !errdefs.IsNotFound(err) {
		t.Errorf("what is not there: %v", err)
	}
}
