// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// Pin says whether a record keeps its image from the kubelet's garbage collection, and
// whose pin that is.
type Pin struct {
	// Own says that pullwarden has pinned the record.
	Own bool
	// Used is when the image was last known to be used as its own pin was written.
	Used time.Time
	// Foreign says that somebody else has pinned it: containerd, by its configuration,
	// or an operator. Such a pin is never taken away.
	Foreign bool
}

// decodePin reads the pin. Unlike the other labels it holds by itself, whatever record
// it was written for: CRI goes by its own label alone. Pullwarden's label without CRI's
// is no pin. A time that cannot be read is the beginning of all times.
func decodePin(all map[string]string) Pin {
	switch mark := all[LabelPinned]; {
	case all[labels.CRIPinned] != labels.CRIPinnedValue:
		return Pin{}
	case mark == "":
		return Pin{Foreign: true}
	default:
		return Pin{Own: true, Used: decodeTime(mark)}
	}
}

// encode returns the value of [LabelPinned]; "" for a pin that is not pullwarden's.
func (p Pin) encode() string {
	if !p.Own {
		return ""
	}
	return p.Used.UTC().Format(time.RFC3339)
}

// withPin has CRI's label follow [LabelPinned] in a change of the labels below, and
// leaves a pin of somebody else as it is. It changes and returns the change.
func withPin(below, change map[string]string) map[string]string {
	mark, mentioned := change[LabelPinned]
	own := below[LabelPinned] != ""
	switch {
	case change[labels.CRIPinned] == labels.CRIPinnedValue: // by containerd's configuration, from now on
		delete(change, LabelPinned)
		if own {
			change[LabelPinned] = ""
		}
	case !mentioned:
	case mark == "" && own:
		change[labels.CRIPinned] = ""
	case mark != "" && (own || below[labels.CRIPinned] != labels.CRIPinnedValue):
		change[labels.CRIPinned] = labels.CRIPinnedValue
	default:
		delete(change, LabelPinned)
	}
	return change
}

// Current reports whether the target of the record is the digest that was last pulled or
// confirmed for its name.
func (s *State) Current() bool { return !s.PulledAt.IsZero() || s.Said() }

// LastUseBy is when the image was last used, as far as the record tells. What lies in the future, by a clock that was ahead,
// tells nothing.
func (s *State) LastUseBy(now time.Time) (last time.Time) {
	for _, at := range []time.Time{s.Pin.Used, s.PulledAt, s.Verified.At} {
		if at.After(last) && !at.After(now) {
			last = at
		}
	}
	return last
}

// Pins lists the records that pullwarden has pinned, in the namespace of the context, as
// they are on disk.
func (s *Store) Pins(ctx context.Context) ([]Record, error) {
	all, err := s.images.List(ctx, fmt.Sprintf("labels.%q", LabelPinned))
	if err != nil {
		return nil, fmt.Errorf("list the pinned images: %w", err)
	}
	var pinned []Record
	for _, img := range all {
		if record := recordOf(img, img.Labels); record.Pin.Own {
			pinned = append(pinned, record)
		}
	}
	return pinned, nil
}

// PinChange pins a record while it points at a target, or takes pullwarden's pin away.
type PinChange struct {
	Name   string
	Target ocispec.Descriptor
	// Pin is the new pin; the zero value for none.
	Pin Pin
}

// SetPins changes pins in the namespace of the context, and returns when that is written.
// Records that are missing, that point at another target by now, or that somebody else
// has pinned stay as they are. CRI does not hear of it.
func (s *Store) SetPins(ctx context.Context, changes []PinChange) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	return s.sync(ctx, func() error {
		for _, c := range changes {
			if err := s.markPin(ctx, namespace, c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) markPin(ctx context.Context, namespace string, c PinChange) error {
	img, err := s.images.Get(ctx, c.Name)
	switch {
	case errdefs.IsNotFound(err) || err == nil && img.Target.Digest != c.Target.Digest:
		return nil
	case err != nil:
		return fmt.Errorf("read image record %q: %w", c.Name, err)
	}
	k := keyOf(namespace, img)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.add(k, c.mark(k.name, k.target))
	return nil
}

// mark binds a new pin to its record. That a pin goes says nothing of the other labels.
func (c PinChange) mark(name string, target digest.Digest) map[string]string {
	mark := map[string]string{LabelPinned: c.Pin.encode()}
	if c.Pin.Own {
		mark[LabelRecord] = binding(name, target)
	}
	return mark
}
