// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// slowDisk takes its time to make a record, before which the caller leaves.
type slowDisk struct {
	images.Store
	leave func()
}

func (d slowDisk) Create(ctx context.Context, img images.Image) (images.Image, error) {
	d.leave()
	time.Sleep(50 * time.Millisecond)
	return d.Store.Create(ctx, img)
}

// A yes to an image that was imported with two tags counts for both, though who asked leaves while the record of
// repository@digest is made for it; also where the tag stands for another image in the registry by now.
func TestYesToACallerWhoLeaves(t *testing.T) {
	for what, rules := range map[string][]string{
		"the same":  {`policy = "IfNotPresent"`},
		"compared":  {`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`},
		"has moved": {`policy = "IfNotPresent"`},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			db := openDB(t)
			records := metadata.NewImageStore(db)
			for _, n := range []string{name, repository + ":2", imageID(first).String()} {
				_, err := records.Create(ctx, images.Image{Name: n, Target: first})
				must(t, err)
			}
			n := &node{remote: first, record: &store.Record{Name: name, Target: first}}
			if what == "has moved" {
				n.remote = second
			}
			own, leave := context.WithCancel(ctx)
			s := store.New(db, slowDisk{records, leave})
			e := n.engine(rule(rules...))
			onStore(e, s)
			_, _ = e.Ensure(own, n.request(nil))
			n.checkFails = failure.Unreachable
			other := n.request(nil)
			other.Caller, other.Name, other.Image = bob, repository+":2", policy.Image{Repository: repository, Tag: "2"}
			if o, err := e.Ensure(ctx, other); err == nil {
				t.Errorf("another caller has it by the other tag: %s (%s)", o.Kind, o.Reason)
			}
			must(t, s.Close())
		})
	}
}
