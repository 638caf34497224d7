// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// managedLabel marks the records that CRI looks after.
const managedLabel = "io.cri-containerd.image"

// An embedded field is named after its type; Store is the method's name.
type imageStore = image.Store

// labelledStore is the destination of a pull.
type labelledStore struct {
	*imageStore
	recorder *recorder // nil: only what the plan knows is stored
	plan     *Plan     // nil: only sources are stored
	hosts    []string  // that this pull may ask, in their order
}

// Store stores the records of the image with their labels.
func (s *labelledStore) Store(ctx context.Context, desc ocispec.Descriptor, records images.Store) ([]images.Image, error) {
	if s.plan != nil && s.plan.Admit != nil {
		if err := s.plan.Admit(ctx, desc); err != nil {
			return nil, err
		}
	}
	l := &labellingImages{Store: records, recorder: s.recorder, plan: s.plan}
	if s.recorder != nil {
		from, err := s.recorder.ledger.image(ctx, desc)
		if err != nil {
			log.G(ctx).WithError(err).Warnf("pullwarden: the sources of %s are not recorded", desc.Digest)
		}
		l.from = from.inOrder(s.hosts)
	}
	return s.imageStore.Store(ctx, desc, l)
}

// labellingImages adds labels to what is created or replaced.
type labellingImages struct {
	images.Store
	recorder *recorder
	plan     *Plan
	from     origin
}

// Create creates a record. CRI will make one of repository@digest too, and
// with it show the image: that one is written first, so that at no moment there
// is a record of this digest without what is known of it.
func (l *labellingImages) Create(ctx context.Context, img images.Image) (images.Image, error) {
	if name := l.canonicalName(img); name != "" && name != img.Name {
		canonical := img
		canonical.Name = name
		canonical.Labels = maps.Clone(img.Labels)
		if err := l.put(ctx, canonical); err != nil {
			return images.Image{}, fmt.Errorf("store %s: %w", name, err)
		}
	}
	return l.create(ctx, img)
}

// Update replaces a record. containerd would wipe every label that the pull
// does not know; what pullwarden knew of the same digest stays.
func (l *labellingImages) Update(ctx context.Context, img images.Image, fieldpaths ...string) (images.Image, error) {
	if len(fieldpaths) > 0 {
		return l.Store.Update(ctx, img, fieldpaths...)
	}
	old, err := l.Get(ctx, img.Name)
	if err != nil {
		return images.Image{}, err
	}
	if old.Target.Digest != img.Target.Digest {
		img.Labels = present(overlay(img.Labels, l.labels(img, nil)))
		return l.Store.Update(ctx, img)
	}
	labels := overlay(img.Labels, l.labels(img, old.Labels))
	for label := range old.Labels {
		if _, kept := labels[label]; !kept && !strings.HasPrefix(label, store.Prefix) {
			labels[label] = ""
		}
	}
	return l.change(ctx, old, img, labels)
}

// put creates or updates the record of repository@digest as CRI does, which
// leaves labels of others alone.
func (l *labellingImages) put(ctx context.Context, img images.Image) error {
	for {
		_, err := l.create(ctx, img)
		if !errdefs.IsAlreadyExists(err) {
			return err
		}
		old, err := l.Get(ctx, img.Name)
		if err == nil {
			_, err = l.change(ctx, old, img, overlay(img.Labels, l.labels(img, known(old, img))))
		}
		if !errdefs.IsNotFound(err) {
			return err
		}
		// It was removed in between.
	}
}

func (l *labellingImages) create(ctx context.Context, img images.Image) (images.Image, error) {
	img.Labels = present(overlay(img.Labels, l.labels(img, nil)))
	return l.Store.Create(ctx, img)
}

// change sets labels, and the target where it differs, one by one: what is
// written to other labels at the same time is not lost.
func (l *labellingImages) change(ctx context.Context, old, img images.Image, labels map[string]string) (images.Image, error) {
	paths := []string{"target"}
	labels = store.Supersede(img.Target.Digest, old.Labels, labels)
	for label, value := range labels {
		if old.Labels[label] != value {
			paths = append(paths, "labels."+label)
		}
	}
	slices.Sort(paths)
	img.Labels = labels
	return l.Store.Update(ctx, img, paths...)
}

// labels returns the labels to set on a record that had those before; an empty
// value takes one away.
func (l *labellingImages) labels(img images.Image, before map[string]string) map[string]string {
	state := store.Decode(img.Target.Digest, before)
	if l.plan == nil {
		l.from.enter(&state)
		labels := state.Labels()
		return map[string]string{
			store.LabelPullSource:     labels[store.LabelPullSource],
			store.LabelContentSources: labels[store.LabelContentSources],
			store.LabelPulledAt:       store.State{PulledAt: l.recorder.Now()}.Labels()[store.LabelPulledAt],
		}
	}
	state = l.plan.State(img.Target.Digest, state)
	l.from.enter(&state)
	return state.Labels()
}

// known returns what the old record says of the new one's target.
func known(old, img images.Image) map[string]string {
	if old.Target.Digest != img.Target.Digest {
		return nil
	}
	return old.Labels
}

// enter sets the sources of a state. Those of a record that is older than the
// ledger's knowledge stay.
func (o origin) enter(s *store.State) {
	if o.reference != "" {
		s.PullSource = o.reference
	}
	if len(o.hosts) == 0 {
		return
	}
	hosts := o.hosts
	if host, _, ok := strings.Cut(s.PullSource, "/"); ok && !slices.Contains(hosts, host) {
		hosts = union([]string{host}, hosts)
	}
	s.ContentSources = nil
	if len(hosts) > 1 || s.PullSource == "" {
		s.ContentSources = hosts
	}
}

// canonicalName returns repository@digest of a record that CRI looks after, or
// is to look after; "" for others.
func (l *labellingImages) canonicalName(img images.Image) string {
	if l.plan == nil && img.Labels[managedLabel] == "" {
		return ""
	}
	named, err := reference.ParseDockerRef(img.Name)
	if err != nil {
		return ""
	}
	canonical, err := reference.WithDigest(reference.TrimNamed(named), img.Target.Digest)
	if err != nil {
		return ""
	}
	return canonical.String()
}

// overlay returns a new map with the labels of above laid over those of below.
func overlay(below, above map[string]string) map[string]string {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, above)
	return out
}

// present returns the labels that have a value.
func present(labels map[string]string) map[string]string {
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}
