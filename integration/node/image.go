// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// LabelPrefix is that of pullwarden's labels and annotations.
const LabelPrefix = "pullwarden.io/"

// Own returns those labels or annotations that are pullwarden's, without the
// prefix.
func Own(labels map[string]string) map[string]string {
	own := map[string]string{}
	for k, v := range labels {
		if name, ok := strings.CutPrefix(k, LabelPrefix); ok {
			own[name] = v
		}
	}
	return own
}

// Record returns the record of an image. The error for one that is not there is
// errdefs.ErrNotFound.
func (n *Node) Record(ctx context.Context, ref string) (images.Image, error) {
	return n.Client.ImageService().Get(ctx, ref)
}

// Labels returns pullwarden's labels on an image's record, without the prefix.
// The error for an image that is not there is errdefs.ErrNotFound.
func (n *Node) Labels(ctx context.Context, ref string) (map[string]string, error) {
	img, err := n.Record(ctx, ref)
	if err != nil {
		return nil, err
	}
	return Own(img.Labels), nil
}

// SetLabels changes labels of pullwarden on a record; an empty value takes the
// label away.
func (n *Node) SetLabels(ctx context.Context, ref string, labels map[string]string) error {
	img, err := n.Record(ctx, ref)
	if err != nil {
		return err
	}
	if img.Labels == nil {
		img.Labels = map[string]string{}
	}
	paths := make([]string, 0, len(labels))
	for k, v := range labels {
		img.Labels[LabelPrefix+k] = v
		paths = append(paths, "labels."+LabelPrefix+k)
	}
	maps.DeleteFunc(img.Labels, func(_, v string) bool { return v == "" })
	slices.Sort(paths)
	_, err = n.Client.ImageService().Update(ctx, img, paths...)
	return err
}

// Status returns what CRI says of an image, with verbose information. Its Image
// is nil where CRI knows none.
func (n *Node) Status(ctx context.Context, ref string) (*runtimeapi.ImageStatusResponse, error) {
	return n.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}, Verbose: true})
}

// List returns the images that CRI lists.
func (n *Node) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	resp, err := n.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	return resp.GetImages(), err
}

// Remove removes an image through CRI.
func (n *Node) Remove(ctx context.Context, ref string) error {
	_, err := n.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	return err
}

// TagLocal gives the image of a record another name, as ctr images tag --local
// --force does: with all of its labels.
func (n *Node) TagLocal(ctx context.Context, from, to string) error {
	img, err := n.Record(ctx, from)
	if err != nil {
		return err
	}
	img.Name = to
	_, err = n.Client.ImageService().Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		if err := n.Client.ImageService().Delete(ctx, to); err != nil {
			return err
		}
		_, err = n.Client.ImageService().Create(ctx, img)
	}
	return err
}

// Import imports an image from an archive under that name, as an operator does
// who preloads images (ctr images import --local). CRI hears of it a little later.
func (n *Node) Import(ctx context.Context, ref string, img v1.Image) error {
	dir, err := os.MkdirTemp(n.dir, "import-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(img, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref}))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = n.Client.Import(ctx, &archive)
	return err
}
