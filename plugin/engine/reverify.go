// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// reverify takes the bytes of an image that is here once more, from a source
// that has allowed hosts only, and compares them; of one that came from these alone it makes
// sure that they have its layers. The verifiers are asked before, as before a pull: one that refuses the image spares the bytes.
func (e *Engine) reverify(ctx context.Context, t task, c course, action Action, source resolver.Source) (course, error) {
	a := c.answer
	if err := e.agree(ctx, t, c.local); err != nil {
		return c.ended(failed(ReasonVerifier, err)), nil
	}
	c.local.agreed = true
	target := a.verified.Digest
	before := e.statesBefore(ctx, t, c.local.Record.Target)
	compares, err := e.verify(ctx, t, a, c.local.Record, source)
	if err == nil { // another host may have the manifest that the registry refuses
		err = e.verifyManifest(ctx, t, a, c.local.Record.Target, source)
	}
	if err == nil {
		err = e.endRefused(ctx, t, a.watch, source)
	}
	if err != nil {
		return c, e.orGone(ctx, t, a.descriptor.Digest, err)
	}
	c.local.ForeignSource, c.local.compared = false, compares
	served := source.Served()
	if !a.actUponUnlessOutdated() {
		return c.ended(failed(ReasonPull, errOutdated)), nil
	}
	// Whose the image is goes before where it came from, by which others may have it, and before it is unpacked.
	e.nameByDigest(ctx, t, target)
	e.markPulled(ctx, target, t.names(target), func(before store.State) store.State { // with the checks that were made meanwhile
		return e.pulledState(a, before)
	})
	e.writeVerified(ctx, t, c.local, before, served)
	if c = c.ended(e.reuse(ctx, t, c, action, hasTurn)); c.end.kind != Failed && compares {
		c.end.source = served.Reference
	}
	return c, nil
}

// verify verifies what is not known of an image that is here, as reverify says. compares says that it was all of it.
func (e *Engine) verify(ctx context.Context, t task, a answer, image store.Record, source resolver.Source) (compares bool, err error) {
	image.HasLayers = true
	if compares, err = e.foreign(ctx, t, image); err != nil {
		return false, err
	}
	if compares {
		return true, e.verifyContent(ctx, t, a, source)
	}
	return false, e.verifyLayers(ctx, t, image.Target, source, func(digest.Digest) bool { return false })
}

// writeVerified writes that an image was compared with what these sources have served, or that these have shown its layers; before
// are the states of its records when that began. It is on disk before the request ends, so that whichever pull comes
// next adds its hosts to it. An image of which it cannot be written is compared once more by the next request.
func (e *Engine) writeVerified(ctx context.Context, t task, image Local, before []store.State, served provenance.Provenance) {
	err := e.Records.WriteSources(ctx, image.target(), func(now store.State) store.State {
		now.PulledAt = e.Now()
		if !image.compared {
			return transfer.WithShown(now, served.Hosts)
		}
		now.HasLayers = true
		return transfer.WithComparedSince(before, now, served)
	}, t.names(image.target())...)
	if err == nil && image.compared {
		err = e.Sources.Compared(ctx, image.Record.Target, t.Snapshotter)
	}
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("what was verified of %q is not recorded", t.Name)
	}
}

// statesBefore returns the states of the records that stand for the image, as far as they can be read, and one of the
// hosts that have brought what it is unpacked from.
func (e *Engine) statesBefore(ctx context.Context, t task, target ocispec.Descriptor) (all []store.State) {
	for _, name := range t.names(target.Digest) {
		if record, err := e.Records.Get(ctx, name); err == nil && record.Target.Digest == target.Digest {
			all = append(all, record.State)
		}
	}
	if from, _, err := e.Sources.Unpacked(ctx, target, t.Snapshotter); err == nil {
		all = append(all, store.State{ContentSources: from.Hosts, MoreSources: from.More})
	}
	return all
}

// verifyLayers makes sure that the hosts of the source have the layers of an image that is here: a registry may
// take a manifest without them, from whoever knows their digests.
func (e *Engine) verifyLayers(ctx context.Context, t task, target ocispec.Descriptor, source resolver.Source, delivered func(digest.Digest) bool) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	return e.Content.VerifyLayers(ctx, target, fetcher, delivered)
}

// verifyContent takes every byte of an image that is here from the source.
func (e *Engine) verifyContent(ctx context.Context, t task, a answer, source resolver.Source) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	return e.Content.VerifyContent(ctx, a.descriptor, fetcher)
}
