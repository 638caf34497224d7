// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/version"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSourceIsShown looks for the sources of an image with two names in
// everything that CRI answers about images.
func TestSourceIsShown(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	dgst := m.both("app:1", nodetest.Image(1))
	m.both("copy:1", nodetest.Image(1))
	ref, other := nodetest.Named("app:1"), nodetest.Named("copy:1")
	id := m.MustPull(ref)
	m.mirror.Refuse()
	m.MustPull(other)
	// Stale marks are shown too.
	m.Registry.Refuse()
	m.MustPull(ref, node.Hint("policy", "IfDigestChanged"))
	m.Restore()
	nodetest.Eventually(t, "the image is stale", func() bool { return m.Labels(ref)["stale-reason"] == "unreachable" })

	labels := m.Labels(ref)
	annotations := map[string]string{
		"pull-source": m.mirror.Host() + "/app:1", "verified-digest": dgst.String(), "verified-by": m.mirror.Host(), "verified-at": labels["verified-at"],
		"stale-since": labels["stale-since"], "stale-reason": "unreachable",
	}
	shown := func(what string, image *runtimeapi.Image) {
		t.Helper()
		if diff := cmp.Diff(annotations, node.Own(image.GetSpec().GetAnnotations())); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", what, diff)
		}
		nodetest.Want(t, what+": name", image.GetSpec().GetImage(), ref)
	}
	shown("by name", m.Status(ref).GetImage())
	shown("by ID", m.Status(id).GetImage())
	shown("in the list", m.List()[0])
	switch all, err := stream(m.Node); {
	case strings.HasPrefix(version.Version, "2.3."): // CRI has no stream of images there
		nodetest.Want(t, "code of the stream", status.Code(err), codes.Unimplemented)
	case err != nil:
		t.Errorf("stream images: %v", err)
	default:
		shown("in the stream", all[0])
	}
	nodetest.Want(t, "verified by for the other name", m.Annotations(other)["verified-by"], m.Registry.Host())

	var info map[string]string
	if err := json.Unmarshal([]byte(m.Status(ref).GetInfo()["pullwarden"]), &info); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"pullSource": annotations["pull-source"], "pulledAt": labels["pulled-at"],
		"verifiedDigest": dgst.String(), "verifiedAt": labels["verified-at"], "verifiedBy": m.mirror.Host(),
		"staleSince": labels["stale-since"], "staleReason": "unreachable",
	}, info); diff != "" {
		t.Errorf("verbose information (-want +got):\n%s", diff)
	}

	m.Restart(nodetest.OnlySection())
	nodetest.Want(t, "annotations of stock containerd", len(m.Status(ref).GetImage().GetSpec().GetAnnotations()), 0)
	nodetest.Want(t, "annotations of stock containerd's list", len(m.List()[0].GetSpec().GetAnnotations()), 0)
}

// stream returns all images by CRI's stream of them.
func stream(n *nodetest.Node) (all []*runtimeapi.Image, err error) {
	images, err := n.Images.StreamImages(n.T.Context(), &runtimeapi.StreamImagesRequest{})
	for err == nil {
		var resp *runtimeapi.StreamImagesResponse
		if resp, err = images.Recv(); err == nil {
			all = append(all, resp.GetImages()...)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return all, nil
}

// TestSourceIsNotRecordedWhenDisabled holds that without pullwarden nothing is
// said of sources, whoever pulls.
func TestSourceIsNotRecordedWhenDisabled(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.OnlySection())
	n.Push("app:1", nodetest.Image(1))
	n.Push("client:1", nodetest.Image(2))
	n.MustPull(nodetest.Named("app:1"))
	n.Transfer(nodetest.Named("client:1"))
	for _, tag := range []string{"app:1", "client:1"} {
		nodetest.Want(t, "labels of "+tag, len(n.Labels(nodetest.Named(tag))), 0)
	}
	blobs := 0
	err := n.Client.ContentStore().Walk(t.Context(), func(info content.Info) error {
		blobs++
		for label := range info.Labels {
			if strings.HasPrefix(label, node.LabelPrefix) {
				t.Errorf("content %s has the label %s", info.Digest, label)
			}
		}
		return nil
	})
	if err != nil || blobs == 0 {
		t.Errorf("%d blobs: %v", blobs, err)
	}
}
