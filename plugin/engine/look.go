// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// held is what the node has for a request.
type held struct {
	// cached is an image that can run; nil when there is none.
	cached *cached
	// elsewhere is an image that can run, but came from hosts that are not
	// allowed; cached is nil then.
	elsewhere *cached
	// before is what the record points at.
	before digest.Digest
	// incomplete says that there is a record, but its image cannot run.
	incomplete bool
}

// cached is an image on the node that can run.
type cached struct {
	id     string
	record store.Record
	// proof is what lets the caller reuse it without asking: a fingerprint, or
	// open. Empty means that the caller has to ask.
	proof store.Fingerprint
	// access is why.
	access Access
	// incomplete says that its snapshot, or one of the names that CRI gives an
	// image, is missing: a pull for another snapshotter made it, or one that
	// did not come to its end.
	incomplete bool
}

// open is the proof for images that need none.
const open store.Fingerprint = "open"

// look finds out whether the node has an image that can run. It changes
// nothing, so it may run beside a check.
func (d *decision) look(ctx context.Context) (held, error) {
	id, err := d.req.Runtime.ImageID(ctx)
	if err != nil {
		return held{}, fmt.Errorf("ask CRI for the image: %w", err)
	}
	if id == "" {
		return held{}, nil
	}
	record, err := d.engine.Images.Get(ctx, d.req.Name)
	if errdefs.IsNotFound(err) {
		return held{}, nil
	}
	if err != nil {
		return held{}, fmt.Errorf("read the image record: %w", err)
	}
	l := held{before: record.Target.Digest}
	image, err := d.engine.Images.Runnable(ctx, record.Target, d.req.Snapshotter)
	if err == nil && image.ID.String() != id {
		err = fmt.Errorf("CRI has image %s for it, the record %s", id, image.ID)
	}
	if err != nil {
		if ctx.Err() != nil {
			return held{}, ctx.Err()
		}
		log.G(ctx).WithError(err).Warnf("pullwarden: the cached image %q cannot run and counts as absent", d.req.Name)
		l.incomplete = true
		return l, nil
	}
	l.cached = &cached{id: id, record: record, incomplete: !image.Unpacked}
	if d.fromElsewhere(record.State) {
		l.cached, l.elsewhere = nil, l.cached
		return l, nil
	}
	return l, d.entitle(ctx, l.cached)
}

// see takes in what the node has.
func (d *decision) see(l held, err error) error {
	if err != nil {
		return d.fail(ReasonInternal, err)
	}
	d.held, d.looked = l, true
	if l.before != "" {
		d.o.Before = l.before
	}
	if l.elsewhere != nil {
		d.o.use(policy.KeyAllowedSources)
	}
	d.noteAccess()
	return nil
}

func (d *decision) noteAccess() {
	if d.cached == nil {
		return
	}
	d.o.Access = d.cached.access
	if d.o.Access == AccessAny || d.o.Access == AccessUnproved {
		d.o.use(policy.KeyAccess)
	}
}

// sight is a look that goes on while a registry is asked: mostly the answer
// takes longer than the look, and nobody waits for it.
type sight struct {
	done  chan struct{} // closed when the rest is set
	held  held
	err   error
	worth resolver.Local
}

// lookMeanwhile starts a look, unless there was one. The caller waits for it.
// One that fails calls off what it goes on beside.
func (d *decision) lookMeanwhile(ctx context.Context, callOff func()) *sight {
	if d.looked {
		return d.seen()
	}
	s := &sight{done: make(chan struct{})}
	looker := *d // the decision goes on
	go func() {
		defer close(s.done)
		if s.held, s.err = looker.look(ctx); s.err != nil {
			callOff()
			return
		}
		s.worth = looker.worth(s.held)
	}()
	return s
}

// seen is a look that is over.
func (d *decision) seen() *sight {
	s := &sight{done: make(chan struct{}), held: d.held, worth: d.worth(d.held)}
	close(s.done)
	return s
}

// worth is what there is besides a registry, for the resolver.
func (d *decision) worth(h held) resolver.Local {
	if h.cached == nil {
		return resolver.Local{}
	}
	return resolver.Local{Digest: h.cached.record.Target.Digest, Fallback: d.fallback(h.cached)}
}

// wait returns what the look saw.
func (s *sight) wait() (held, error) {
	<-s.done
	return s.held, s.err
}

// local waits for what it is worth; nothing, where it failed.
func (s *sight) local() resolver.Local {
	<-s.done
	return s.worth
}
