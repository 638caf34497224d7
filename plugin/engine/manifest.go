// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
)

// readsManifests reports whether a check reads manifests, and does not only ask for
// their digests.
func (t *task) readsManifests() bool { return t.directives.CheckWith == policy.Manifest }

// nested is the manifest that runs of the cached image, where that is an index; zero
// elsewhere. Where checks read manifests it is read for whoever has just been confirmed the
// index.
func nested(local Local) resolver.Nested {
	if !local.Usable() || local.manifest == local.target() {
		return resolver.Nested{}
	}
	return resolver.Nested{Index: local.target(), Manifest: local.manifest}
}

// isUnread reports whether the manifest that runs of the cached image, for which the tag stands, is
// to be read before that is reused: always for a caller who has proved nothing, in the way of a
// pull, so that nobody learns by an error what the node has, or is given what the registry refuses.
// That holds where the node itself was let in, too, for whom each check reads it: nobody has
// proved anything then. Where the tag stands for another image, askCached reads it.
func (c *course) isUnread() bool { return c.unread && c.cached == NotAsked }

// readCached reads the manifest that runs of the cached image, which a registry has confirmed by
// that answer in the session, in the way of a pull for a caller who has not proved it. It waits for
// no turn: nothing is pulled. within bounds it as a part of the check, after which the registry is
// unreachable; 0 = as a pull is bounded. cause is why registries failed, and stop ends a request where none of them is at fault.
func (e *Engine) readCached(ctx context.Context, t task, c *course, a answer, session resolver.Session, within time.Duration, proved bool) (stop *end, cause error) {
	source, target := session.Source(a.descriptor), c.local.Record.Target
	err := inTime(ctx, within, func(ctx context.Context) error {
		return e.verifyFound(ctx, t, a, target, source, proved)
	})
	c.hearPull(source.Heard())
	var ended course
	if err != nil {
		err = e.orGone(ctx, t, target.Digest, err)
		var registries *resolver.Error
		if ended, registries = pullFailed(ctx, *c, source, &try{tries: new(tries)}, err); registries != nil {
			return nil, registries
		}
	}
	if err := e.endRefused(ctx, t, nil, source); err != nil { // before a proof is stored
		ended = c.ended(failed(ReasonInternal, err))
	}
	if ended.over() {
		return &ended.end, nil
	}
	return nil, nil
}

// inTime reads from registries for so long, as a part of a check; 0 = without a bound. That the time
// is over is a failure of theirs.
func inTime(ctx context.Context, within time.Duration, read func(context.Context) error) error {
	if within == 0 {
		return read(ctx)
	}
	bounded, cancel := resolver.InCheck(ctx, within)
	defer cancel()
	err := read(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", resolver.ErrNoProgress, err)
	}
	return err
}

// hasRead reports whether the check beside containerd's own pull has read the manifest that
// runs of the image which that has brought, the target; "" = nobody knows which runs.
func (o *observed) hasRead(t task, target, runs digest.Digest) bool {
	return t.readsManifests() && runs != "" && (runs == target || o.nested == resolver.Nested{Index: target, Manifest: runs})
}

// verifyManifest refuses an image whose manifest the registry refuses, where checks read
// it: containerd takes it from no registry if it is on the node already, by another index
// or an earlier pull. The answer is one that was read.
func (e *Engine) verifyManifest(ctx context.Context, t task, a answer, target ocispec.Descriptor, source resolver.Source) error {
	if !t.readsManifests() {
		return nil
	}
	answering := source.Answering(a.verified.By) // a mirror's manifest is no word of the registry's
	fetcher, err := answering.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	read := func(d digest.Digest) bool { return d == a.verified.Digest || answering.Delivered(d) }
	return e.Content.VerifyManifest(ctx, target, fetcher, read)
}

// verifyFound is verifyManifest of an image that is on the node. For a caller who has proved
// nothing the hosts of the pull have to deliver the manifest, however checks ask: containerd
// fetches nothing that is there by another tag, or by another's pull.
func (e *Engine) verifyFound(ctx context.Context, t task, a answer, target ocispec.Descriptor, source resolver.Source, proved bool) error {
	if !proved {
		if err := e.readManifest(ctx, t, target, source); err != nil {
			return err
		}
	}
	return e.verifyManifest(ctx, t, a, target, source)
}

// readManifest reads the manifest that runs of an image from the hosts that a pull would ask
// for it, in their order.
func (e *Engine) readManifest(ctx context.Context, t task, target ocispec.Descriptor, source resolver.Source) error {
	fetcher, err := source.Fetcher(ctx, t.Name)
	if err != nil {
		return err
	}
	return e.Content.VerifyManifest(ctx, target, fetcher, source.Delivered)
}
