// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"fmt"
	"maps"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
)

// remove removes an image. CRI removes all names of an image together.
func (h *history) remove(ctx context.Context, name int) error {
	content := h.worlds[0].Node[name].Content
	if content == 0 {
		return nil
	}
	if err := h.node.Remove(ctx, h.reg.ref(Pull{Name: name})); err != nil {
		return fmt.Errorf("remove an image: %w", err)
	}
	for i := range h.worlds {
		w := &h.worlds[i]
		for other := range w.Node {
			if w.Node[other].Content == content {
				w.Node[other] = Image{}
			}
		}
		for r := range w.Has {
			w.Has[r][content] = 0
		}
	}
	h.settled, h.lost = false, nil
	return nil
}

// retag makes another image of a name, as ctr does in containerd's database: a local
// tag copies the labels of the other record, and a local import keeps those that
// were there. Neither are for this name and digest.
func (h *history) retag(ctx context.Context, o Op) error {
	from, to := h.worlds[0].Node[o.From].Content, h.worlds[0].Node[o.Name].Content
	if from == 0 || from == to || o.Kind == DoImport && to == 0 {
		return nil
	}
	if o.Kind == DoTag && h.worlds[0].Node[o.From].Open {
		return nil // its labels may be those of the other name, which count there again
	}
	// A mark for what the name stood for before holds again if that comes back, and what
	// is written now stays in the labels.
	if err := h.node.flush(ctx); err != nil {
		return err
	}
	if err := h.allowed(ctx); err != nil {
		return err
	}
	if err := h.node.retag(ctx, h.reg.ref(Pull{Name: o.From}), h.reg.ref(Pull{Name: o.Name}), o.Kind == DoTag); err != nil {
		return fmt.Errorf("%v: %w", o, err)
	}
	for i := range h.worlds {
		img := &h.worlds[i].Node[o.Name]
		if o.Kind == DoTag {
			*img = Image{Content: from, Open: true}
		} else {
			*img = img.imported(from)
		}
	}
	h.settled, h.lost = false, nil
	return nil
}

// imported is what a name has when another content is imported over it: its labels
// stay.
func (i Image) imported(content int) Image {
	labels := i.Under
	if !i.Open || i.Stale != None {
		labels = Labels{Content: i.Content, Stale: i.Stale, Proofs: i.Proofs, By: i.By, Read: i.Read, Open: i.Open}
	}
	if labels.Content == content {
		return Image{Content: content, Stale: labels.Stale, Proofs: labels.Proofs, By: labels.By, Read: labels.Read, Open: labels.Open}
	}
	return Image{Content: content, Open: true, Under: labels}
}

// seenAs is the state as far as it differs from another for what may follow. What
// labels say of other contents may be dropped at any time, and a proof on the record
// of a name counts no more than the same on that of repository@digest.
func (w World) seenAs(got World) World {
	for name := range w.Node {
		img := &w.Node[name]
		if got.Node[name].Under == (Labels{}) {
			img.Under = Labels{}
		}
		img.Proofs.remove(w.Has[repoOf[name]][img.Content])
	}
	return w
}

// retag points a name at the target of another, and waits until CRI knows.
func (n *node) retag(ctx context.Context, from, to string, copyLabels bool) error {
	source, err := n.Client.ImageService().Get(ctx, from)
	if err != nil {
		return err
	}
	img := images.Image{Name: to, Target: source.Target, Labels: source.Labels}
	record, err := n.Client.ImageService().Get(ctx, to)
	switch {
	case errdefs.IsNotFound(err):
		_, err = n.Client.ImageService().Create(ctx, img)
	case err == nil && copyLabels:
		_, err = n.Client.ImageService().Update(ctx, img)
	case err == nil:
		img.Labels = maps.Clone(record.Labels)
		_, err = n.Client.ImageService().Update(ctx, img, "target", "labels")
	}
	if err != nil {
		return err
	}
	want, err := n.Status(ctx, from)
	if err != nil {
		return err
	}
	return n.Until(ctx, "CRI knows of the other image", func(ctx context.Context) error {
		got, err := n.Status(ctx, to)
		if err == nil && got.GetImage().GetId() != want.GetImage().GetId() {
			err = fmt.Errorf("%s is %q to CRI", to, got.GetImage().GetId())
		}
		return err
	})
}
