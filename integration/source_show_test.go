// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestSourceIsShown looks for the sources of an image with two names in
// everything that CRI answers about images.
func TestSourceIsShown(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	dgst := m.both("app:1", image(1))
	m.both("copy:1", image(1))
	ref, other := named("app:1"), named("copy:1")
	id := m.mustPull(ref)
	m.mirror.Refuse()
	m.mustPull(other)
	// What is stale is shown too.
	m.r.Refuse()
	m.mustPull(ref, hint("policy", "IfDigestChanged"))
	m.restore()
	eventually(t, "the image is stale", func() bool { return m.labels(ref)["stale-reason"] == "unreachable" })

	labels := m.labels(ref)
	annotations := map[string]string{
		"pull-source": m.mirror.Host() + "/app:1", "verified-digest": dgst.String(), "verified-by": m.mirror.Host(), "verified-at": labels["verified-at"],
		"stale-since": labels["stale-since"], "stale-reason": "unreachable",
	}
	shown := func(what string, image *runtimeapi.Image) {
		t.Helper()
		if diff := cmp.Diff(annotations, ownAnnotations(image.GetSpec().GetAnnotations())); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", what, diff)
		}
		want(t, what+": name", image.GetSpec().GetImage(), ref)
	}
	shown("by name", m.imageStatus(ref).GetImage())
	shown("by ID", m.imageStatus(id).GetImage())
	shown("in the list", m.listed()[0])
	shown("in the stream", m.streamed()[0])
	want(t, "verified by for the other name", ownAnnotations(m.imageStatus(other).GetImage().GetSpec().GetAnnotations())["verified-by"], m.r.Host())

	var info map[string]string
	if err := json.Unmarshal([]byte(m.imageStatus(ref).GetInfo()["pullwarden"]), &info); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"pullSource": annotations["pull-source"], "pulledAt": labels["pulled-at"],
		"verifiedDigest": dgst.String(), "verifiedAt": labels["verified-at"], "verifiedBy": m.mirror.Host(),
		"staleSince": labels["stale-since"], "staleReason": "unreachable",
	}, info); diff != "" {
		t.Errorf("verbose information (-want +got):\n%s", diff)
	}

	m.restart(onlySection())
	want(t, "annotations of stock containerd", len(m.imageStatus(ref).GetImage().GetSpec().GetAnnotations()), 0)
	want(t, "annotations of stock containerd's list", len(m.listed()[0].GetSpec().GetAnnotations()), 0)
}

// streamed returns all images by CRI's stream of them.
func (d *daemon) streamed() (all []*runtimeapi.Image) {
	d.t.Helper()
	stream, err := d.images.StreamImages(d.t.Context(), &runtimeapi.StreamImagesRequest{})
	for err == nil {
		var resp *runtimeapi.StreamImagesResponse
		if resp, err = stream.Recv(); err == nil {
			all = append(all, resp.GetImages()...)
		}
	}
	if !errors.Is(err, io.EOF) {
		d.fatal("stream images: %v", err)
	}
	return all
}

// TestSourceIsNotRecordedWhenDisabled holds that without pullwarden nothing is
// said of sources, whoever pulls.
func TestSourceIsNotRecordedWhenDisabled(t *testing.T) {
	t.Parallel()
	n := newNode(t, onlySection())
	n.push("app:1", image(1))
	n.push("client:1", image(2))
	n.mustPull(named("app:1"))
	if err := n.transfer(t.Context(), named("client:1")); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"app:1", "client:1"} {
		want(t, "labels of "+tag, len(n.labels(named(tag))), 0)
	}
	blobs := 0
	err := n.client.ContentStore().Walk(t.Context(), func(info content.Info) error {
		blobs++
		for label := range info.Labels {
			if strings.HasPrefix(label, labelPrefix) {
				t.Errorf("content %s has the label %s", info.Digest, label)
			}
		}
		return nil
	})
	if err != nil || blobs == 0 {
		t.Errorf("%d blobs: %v", blobs, err)
	}
}
