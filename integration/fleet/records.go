// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
	"github.com/pullwarden/pullwarden/store/content"
)

// records are the image records of a node, in memory, with what [store.Store] promises of
// them. Of the content they know the images that the fleet has ever had. They implement
// the engine's Records, Marks, Proofs, Content and Sources.
type records struct {
	catalog *catalog

	mu     sync.Mutex
	all    map[string]store.Record
	layers map[digest.Digest]struct{}
}

// catalog knows the images of a fleet by their manifests.
type catalog struct {
	mu     sync.RWMutex
	images map[digest.Digest]*image
}

func (c *catalog) add(i *image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images[i.manifest.desc.Digest] = i
}

func (c *catalog) get(d digest.Digest) *image {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.images[d]
}

func newRecords(c *catalog) *records {
	return &records{catalog: c, all: map[string]store.Record{}, layers: map[digest.Digest]struct{}{}}
}

// put stores an image under its names: tag, digest and ID.
func (r *records) put(i *image, state func(before store.State) store.State, names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	target := i.manifest.desc
	for _, name := range append(names, i.config.desc.Digest.String()) {
		var before store.State
		if was, ok := r.all[name]; ok && was.Target.Digest == target.Digest {
			before = was.State
		}
		r.all[name] = store.Record{Name: name, Target: target, State: state(before)}
	}
	r.layers[i.base.desc.Digest] = struct{}{}
	r.layers[i.top.desc.Digest] = struct{}{}
}

// has reports whether a layer is there.
func (r *records) has(layer digest.Digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.layers[layer]
	return ok
}

// Get implements engine.Records.
func (r *records) Get(_ context.Context, name string) (store.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, ok := r.all[name]
	if !ok {
		return store.Record{}, errdefs.ErrNotFound
	}
	return record, nil
}

// mark changes the records of these names that point at target.
func (r *records) mark(target digest.Digest, names []string, change func(*store.State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if record, ok := r.all[name]; ok && record.Target.Digest == target {
			change(&record.State)
			r.all[name] = record
		}
	}
}

// prove adds the same proof of several holders. The map is shared with readers.
func prove(s *store.State, proof store.Proof, holders []store.Fingerprint) {
	access := make(map[store.Fingerprint]store.Proof, len(s.Access)+len(holders))
	for f, p := range s.Access {
		access[f] = p
	}
	for _, f := range holders {
		access[f] = proof
	}
	s.Access, s.Restricted = access, true
}

// MarkVerified implements engine.Marks.
func (r *records) MarkVerified(_ context.Context, target digest.Digest, v store.Verified, proved store.Proved, names ...string) {
	v.Digest = target
	r.mark(target, names, func(s *store.State) {
		prove(s, store.Proof{At: v.At, By: v.By}, proved.Holders())
		s.Verified, s.MirrorDigest, s.Stale = v, "", store.Stale{}
	})
}

// MarkMirrored implements engine.Marks.
func (r *records) MarkMirrored(_ context.Context, target digest.Digest, v store.Verified, proved store.Proved, names ...string) {
	r.mark(target, names, func(s *store.State) {
		prove(s, store.Proof{At: v.At, By: v.By}, proved.Holders())
		s.MirrorDigest = target
	})
}

// MarkStale implements engine.Marks.
func (r *records) MarkStale(_ context.Context, target digest.Digest, stale store.Stale, names ...string) {
	r.mark(target, names, func(s *store.State) { s.Stale = stale })
}

// MarkPulled implements engine.Marks.
func (r *records) MarkPulled(_ context.Context, target digest.Digest, state func() store.State, names ...string) {
	r.mark(target, names, func(s *store.State) { *s = state() })
}

// WriteSources implements engine.Records.
func (r *records) WriteSources(_ context.Context, target digest.Digest, sources func(store.State) store.State, names ...string) error {
	r.mark(target, names, func(s *store.State) { *s = sources(*s) })
	return nil
}

// Given implements engine.Proofs.
func (r *records) Given(context.Context, store.State, ...string) {}

// Used implements engine.Proofs.
func (r *records) Used(context.Context, store.Fingerprint, time.Time, ...string) {}

// Revoke implements engine.Proofs. No registry of the model refuses anybody.
func (r *records) Revoke(context.Context, string, []store.Fingerprint, ...store.Refusal) error {
	return nil
}

// WriteProofs implements engine.Proofs.
func (r *records) WriteProofs(_ context.Context, write func() error) error { return write() }

// ShareProofs implements engine.Proofs.
func (r *records) ShareProofs(context.Context, digest.Digest, string, string) error { return nil }

// Runnable implements engine.Content.
func (r *records) Runnable(_ context.Context, target ocispec.Descriptor, _ string) (content.Image, error) {
	i := r.catalog.get(target.Digest)
	if i == nil {
		return content.Image{}, errdefs.ErrNotFound
	}
	return content.Image{ID: i.config.desc.Digest, Manifest: target.Digest, Unpacked: true}, nil
}

// Unpacked implements engine.Sources: no rule of a fleet has a list of them.
func (r *records) Unpacked(context.Context, ocispec.Descriptor, string) (p provenance.Provenance, known bool, err error) {
	return p, true, nil
}

// Compared implements engine.Sources.
func (r *records) Compared(context.Context, ocispec.Descriptor, string) error { return nil }

// VerifyLayers implements engine.Content. No fleet has a list of sources.
func (r *records) VerifyLayers(context.Context, ocispec.Descriptor, transfer.Fetcher, func(digest.Digest) bool) error {
	return errors.ErrUnsupported
}

// VerifyContent implements engine.Content.
func (r *records) VerifyContent(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error {
	for _, b := range r.catalog.get(target.Digest).blobs() {
		if err := fetch(ctx, from, b.desc); err != nil {
			return err
		}
	}
	return nil
}

// VerifyManifest implements engine.Content.
func (r *records) VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	if delivered(target.Digest) {
		return nil
	}
	return fetch(ctx, from, target)
}

// VerifyPossession implements engine.Content.
func (r *records) VerifyPossession(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	return r.VerifyManifest(ctx, target, from, delivered)
}

// fetch reads content to its end.
func fetch(ctx context.Context, from transfer.Fetcher, desc ocispec.Descriptor) error {
	body, err := from.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	if closing := body.Close(); err == nil {
		err = closing
	}
	return err
}

// byText is get for a digest of a header.
func (c *catalog) byText(text string) *image { return c.get(digest.Digest(text)) }
