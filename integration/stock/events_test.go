// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"context"
	"testing"
	"time"

	eventstypes "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestEvents holds that containerd's events of a pull are as before, and that
// checks make none.
func TestEvents(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all, errs := n.Client.EventService().Subscribe(ctx, `topic~="/images/"`)
	arrive(ctx, n, all)
	next := func() (topic, name string) {
		t.Helper()
		for {
			select {
			case e := <-all:
				decoded, err := typeurl.UnmarshalAny(e.Event)
				if err != nil {
					t.Fatal(err)
				}
				switch e := decoded.(type) {
				case *eventstypes.ImageCreate:
					name = e.Name
				case *eventstypes.ImageUpdate:
					name = e.Name
				}
				if name == ref {
					return e.Topic, name
				}
			case err := <-errs:
				t.Fatal(err)
			case <-time.After(30 * time.Second):
				return "none", ""
			}
		}
	}
	n.MustPull(ref)
	if topic, _ := next(); topic != "/images/create" {
		t.Errorf("the first pull makes %s", topic)
	}
	n.MustPull(ref)
	before := n.Labels(ref)["verified-at"]
	nodetest.Eventually(t, "the second check is written", func() bool {
		n.MustPull(ref)
		return n.Labels(ref)["verified-at"] != before
	})
	n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	if topic, _ := next(); topic != "/images/update" {
		t.Errorf("a changed pull makes %s", topic)
	}
	// If checks made events, the update of the label would have come between.
	select {
	case e := <-all:
		decoded, _ := typeurl.UnmarshalAny(e.Event)
		if u, ok := decoded.(*eventstypes.ImageUpdate); ok && u.Name == ref {
			t.Errorf("one change makes more than one update: %s", u.Name)
		}
	default:
	}
}

// arrive returns once events do, of which it makes some about another image.
func arrive(ctx context.Context, n *nodetest.Node, all <-chan *events.Envelope) {
	n.T.Helper()
	other := images.Image{Name: "other.test/app:1", Target: ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(""), Size: 1,
	}}
	nodetest.Eventually(n.T, "events arrive", func() bool {
		_, err := n.Client.ImageService().Create(ctx, other)
		n.Must(err)
		n.Must(n.Client.ImageService().Delete(ctx, other.Name))
		select {
		case <-all:
			return true
		default:
			return false
		}
	})
}
