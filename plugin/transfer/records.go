// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// imageStore is the alias by which an image.Store is embedded: under its own
// name the field would hide the method Store.
type imageStore = image.Store

// labelledStore is the destination of a pull. It stores records with labels.
type labelledStore struct {
	*imageStore
	tracker *tracker // nil: the sources are those of the plan's state
	plan    *Plan    // nil: only sources are stored
	hosts   []string // that this pull may ask, in their order
	// delivered has the sources of what the pull has fetched.
	delivered deliveries
}

// Store stores the records of the image with their labels.
func (s *labelledStore) Store(ctx context.Context, desc ocispec.Descriptor, records images.Store) ([]images.Image, error) {
	if s.plan != nil && s.plan.Verify != nil {
		if err := s.plan.Verify(ctx, desc); err != nil {
			return nil, err
		}
	}
	if s.plan != nil && s.tracker != nil { // after: what Verify refuses must tell nothing of the node
		if err := s.tracker.contents.complete(ctx, desc, s.plan.Source); err != nil {
			return nil, err
		}
	}
	l := &labelledRecords{Store: records, plan: s.plan}
	if s.tracker != nil {
		sources, err := s.tracker.contents.ofImage(ctx, desc, &s.delivered, s.tracker.snapshotters(s.UnpackPlatforms())...)
		if err != nil {
			prefixlog.G(ctx).WithError(err).Warnf("the sources of %s are not recorded", desc.Digest)
		}
		sources.asks = s.hosts
		l.sources, l.pulledAt = &sources, s.tracker.config.Now()
		l.hasLayers = s.delivered.hasLayers(ctx, s.tracker.contents.documents(), desc)
	}
	if s.plan != nil {
		l.remember(ctx, images.Image{Name: s.plan.Reference, Target: desc})
	}
	if s.plan != nil && s.plan.Compare != nil {
		if err := s.compare(ctx, desc, l); err != nil {
			return nil, err
		}
	}
	if s.plan == nil || s.plan.Write == nil {
		return s.imageStore.Store(ctx, desc, l)
	}
	var stored []images.Image
	err := s.plan.Write(ctx, func() (err error) {
		stored, err = s.imageStore.Store(ctx, desc, l)
		return err
	})
	return stored, err
}

// compare has the plan compare the image by what its record is to tell, and takes note of what that has found out of the layers.
func (s *labelledStore) compare(ctx context.Context, desc ocispec.Descriptor, l *labelledRecords) (err error) {
	l.compared, err = s.plan.Compare(ctx, l.foreseen(ctx, desc), s.delivered.has)
	l.hasLayers = l.hasLayers || err == nil && len(l.compared.Hosts) > 0
	if err != nil || s.tracker == nil || l.compared.Reference == "" {
		return err
	}
	if err := s.tracker.contents.compared(ctx, desc, s.tracker.snapshotters(s.UnpackPlatforms())); err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("the comparison of the layers of %s is not recorded", desc.Digest)
	}
	return nil
}

// labelledRecords adds labels to the records that a pull creates or replaces.
type labelledRecords struct {
	images.Store
	plan     *Plan         // nil: only sources and the time are stored
	sources  *imageSources // nil: they are not tracked
	pulledAt time.Time     // for pulls without a plan
	known    store.State   // of an earlier record of the image; zero where none knows its source
	// compared are those with which the plan has compared the image; without a reference it has not, and they have shown layers.
	compared provenance.Provenance
	before   []store.State // of the image's records, when the pull had come so far
	// hasLayers says that this pull has fetched all layers of the image, or its plan has seen to those that it has not.
	hasLayers bool
}

// Create creates a record. CRI will make one of repository@digest too, and
// with it show the image: that one is written first, so that at no moment there
// is a record of this digest without its labels.
func (l *labelledRecords) Create(ctx context.Context, img images.Image) (images.Image, error) {
	if l.plan == nil {
		l.remember(ctx, img)
	}
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
// does not set; pullwarden's labels that hold for the same digest stay. So does a pin:
// for the same digest each, under a plan also that of somebody else for another one.
func (l *labelledRecords) Update(ctx context.Context, img images.Image, fieldpaths ...string) (images.Image, error) {
	if len(fieldpaths) > 0 {
		return l.Store.Update(ctx, img, fieldpaths...)
	}
	old, err := l.Get(ctx, img.Name)
	if err != nil {
		return images.Image{}, err
	}
	if old.Target.Digest != img.Target.Digest {
		return l.Store.Update(ctx, l.withLabels(l.withForeignPin(img, old)))
	}
	wanted := labels.Overlay(img.Labels, l.newLabels(img, old.Labels))
	for label := range old.Labels {
		if _, kept := wanted[label]; !kept && !strings.HasPrefix(label, store.Prefix) && label != labels.CRIPinned {
			wanted[label] = ""
		}
	}
	return l.change(ctx, old, img, wanted)
}

// put creates or updates the record of repository@digest as CRI does, which
// leaves labels of others alone.
func (l *labelledRecords) put(ctx context.Context, img images.Image) error {
	for {
		_, err := l.create(ctx, img)
		if !errdefs.IsAlreadyExists(err) {
			return err
		}
		old, err := l.Get(ctx, img.Name)
		if err == nil {
			_, err = l.change(ctx, old, img, labels.Overlay(img.Labels, l.newLabels(img, labelsFor(img, old))))
		}
		if !errdefs.IsNotFound(err) {
			return err
		}
		// It was removed in between.
	}
}

func (l *labelledRecords) create(ctx context.Context, img images.Image) (images.Image, error) {
	return l.Store.Create(ctx, l.withLabels(img))
}

// withLabels returns a record that is new, or whose labels are, with its labels.
func (l *labelledRecords) withLabels(img images.Image) images.Image {
	added := store.Supersede(img.Name, img.Target.Digest, img.Labels, l.newLabels(img, nil))
	img.Labels = labels.Present(labels.Overlay(img.Labels, added))
	return img
}

// withForeignPin returns the record with the pin that somebody else has given the old one:
// who pins a tag means what it stands for.
func (l *labelledRecords) withForeignPin(img, old images.Image) images.Image {
	if l.plan != nil && store.Decode(old.Name, old.Target.Digest, old.Labels).Pin.Foreign {
		img.Labels = labels.Overlay(img.Labels, map[string]string{labels.CRIPinned: labels.CRIPinnedValue})
	}
	return img
}

// change sets labels, and the target where it differs, one by one, so that
// other labels that are written at the same time are not lost.
func (l *labelledRecords) change(ctx context.Context, old, img images.Image, wanted map[string]string) (images.Image, error) {
	paths := []string{"target"}
	if l.plan == nil && old.Target.Digest == img.Target.Digest {
		img.Target = old.Target // and not what a host claims of its size and type
	}
	wanted = store.Supersede(img.Name, img.Target.Digest, old.Labels, wanted)
	for label, value := range wanted {
		if old.Labels[label] != value {
			paths = append(paths, "labels."+label)
		}
	}
	slices.Sort(paths)
	img.Labels = wanted
	return l.Store.Update(ctx, img, paths...)
}

// newLabels returns the labels to set on a record that had those before; an
// empty value takes one away.
func (l *labelledRecords) newLabels(img images.Image, before map[string]string) map[string]string {
	state := store.Decode(img.Name, img.Target.Digest, before)
	if l.plan != nil {
		state = l.withSources(l.plan.State(img.Target.Digest, state), state)
		if img.Name != l.plan.Reference {
			state.Pin = store.Pin{} // a pin goes with its tag
		}
		return state.Labels(img.Name, img.Target.Digest)
	}
	state = l.withSources(state, state)
	state.PulledAt = l.pulledAt
	all := state.Labels(img.Name, img.Target.Digest)
	return map[string]string{
		store.LabelPullSource:     all[store.LabelPullSource],
		store.LabelContentSources: all[store.LabelContentSources],
		store.LabelUnknownSources: all[store.LabelUnknownSources],
		store.LabelCompared:       all[store.LabelCompared],
		store.LabelHasLayers:      all[store.LabelHasLayers],
		store.LabelPulledAt:       all[store.LabelPulledAt],
		store.LabelRecord:         all[store.LabelRecord],
	}
}

// labelsFor returns the labels of the old record that are about the new one's
// target: all of them, or nil.
func labelsFor(img, old images.Image) map[string]string {
	if old.Target.Digest != img.Target.Digest {
		return nil
	}
	return old.Labels
}

// canonicalName returns repository@digest of a record that CRI looks after, or
// is to look after; "" for others.
func (l *labelledRecords) canonicalName(img images.Image) string {
	if l.plan == nil && img.Labels[labels.CRIManaged] == "" {
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
