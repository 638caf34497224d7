// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// Source is where a pull gets one image from: exactly the one that was
// resolved. It takes the place of containerd's own source of a transfer.
type Source interface {
	// Resolve returns the reference and the descriptor of the source. It asks
	// nobody. Fetcher returns a fetcher that asks the hosts in the order of
	// hosts.toml.
	transfer.ImageFetcher
	// Answering returns the part of the source that has only those hosts whose answer to
	// a check counts as much as that of the host which gave it: content may come
	// from more. The source knows what its part has seen.
	Answering(host string) Source
	// Prefetching returns the source for one pull, which has some of the content sent
	// before containerd asks for it. Nothing that fails so fails the pull, or counts as a
	// refusal: containerd's own fetch asks again. The caller calls stop when the pull has
	// ended. What it has seen, the source knows.
	Prefetching(p Prefetch) (of Source, stop func())
	// Hosts returns the hosts that may serve content, in the order of hosts.toml.
	Hosts() []string
	// ServedBy tells who has served bytes of one digest so far, in the order in
	// which they did so last. Its reference is what the last of them calls the
	// image.
	ServedBy(d digest.Digest) provenance.Provenance
	// Served tells who has served bytes of the image so far: its reference is
	// that of the host that served the manifest or index that the name stands
	// for, its hosts served anything, in the order of hosts.toml. The hosts of
	// layers that say themselves where they are (foreign layers) follow.
	Served() provenance.Provenance
	// Delivered reports whether a whole document with that digest has come from the source, and none of it from
	// others than its hosts. It is false for content that was there already, and for layers.
	Delivered(d digest.Digest) bool
	// Refusals returns the attempts at which a host itself refused the caller content that it has not served since,
	// nor the registry of the name after it, also where another host had it.
	Refusals() []Attempt
	// Heard tells what has happened so far, also in what was prefetched.
	Heard() Heard
	// Progress tells how many readers wait for content right now, from the request
	// on, and how many bytes have come so far, without prefetches that nobody has taken.
	Progress() (waiting, bytes int64)
	// Redacted returns a context in which what is logged has no secret of the pull, and Clean an error with that cause
	// whose text has none; nil stays nil. containerd repeats what registries say, who may say what they were sent. Lines
	// of a kind are bounded; end, which is called once the pull has ended, tells how many are left out.
	Redacted(ctx context.Context) (redacted context.Context, end func())
	Clean(err error) error
	// CheckConfig returns an error for the config of an image of which CRI would tell a secret of the pull.
	CheckConfig(config []byte) error
	// Failure judges the error of a transfer from this source by what was seen
	// of the registries. It returns nil when none of them was at fault: no
	// space, an image verifier, a layer that does not unpack. Refusals end proofs then, too.
	//
	// Call it only while the caller's own context is alive. An error that is an
	// [ErrNoProgress] always has a failure, whatever else it is.
	Failure(err error) *Error
}

// source implements Source, and reports who served each digest.
type source struct {
	session  *session
	desc     ocispec.Descriptor
	resolver remotes.Resolver
	log      *fetchLog
	ahead    *prefetcher // nil = nothing is prefetched
	// downloads bounds them; nil = containerd does.
	downloads *downloads
}

var (
	_ transfer.ImageFetcher              = (*source)(nil)
	_ transfer.ImageResolverOptionSetter = (*source)(nil)
	_ fmt.Stringer                       = (*source)(nil)
)

// Source implements Session.
func (s *session) Source(desc ocispec.Descriptor) Source {
	return s.source(desc, &fetchLog{
		redactor: s.redactor, chosen: s.redactor.ForHost(s.choosers(desc.Digest)...), openness: s.openness,
		progress: &progress{}, left: &leftHosts{}, heard: &hearing{},
	})
}

func (s *session) source(desc ocispec.Descriptor, log *fetchLog) *source {
	list := make([]docker.RegistryHost, len(s.hosts))
	for i, h := range s.hosts {
		list[i] = h.registryHost(&tracker{next: h.chain.Registry(nil), host: h, identified: s.identifies(h)}, h.trackedAuthorizer())
	}
	return &source{session: s, desc: desc, resolver: dockerResolver(s.headers, list...), log: log}
}

// Answering implements Source.
func (src *source) Answering(host string) Source {
	part := *src.session
	part.hosts = src.session.answering(host)
	return part.source(src.desc, src.log)
}

// Prefetching implements Source.
func (src *source) Prefetching(p Prefetch) (of Source, stop func()) {
	part := *src
	part.ahead = &prefetcher{Prefetch: p, all: map[digest.Digest]*prefetched{}}
	return &part, part.ahead.stop
}

// String names the source in the progress of a pull.
func (src *source) String() string {
	return fmt.Sprintf("OCI Registry (%s as %s)", src.session.query.Reference, src.desc.Digest)
}

// Image returns the reference.
func (src *source) Image() string { return src.session.query.Reference }

// Resolve implements transfer.ImageFetcher.
func (src *source) Resolve(context.Context) (name string, desc ocispec.Descriptor, err error) {
	return src.session.query.Reference, src.desc, nil
}

// SetResolverOptions sets the limits of the fetchers that are made later.
func (src *source) SetResolverOptions(options ...transfer.ImageResolverOption) {
	if src.ahead != nil {
		src.ahead.limit(options)
	}
	if r, ok := src.resolver.(remotes.ResolverWithOptions); ok {
		src.downloads, options = newDownloads(options)
		r.SetOptions(options...)
	}
}

// Fetcher implements transfer.ImageFetcher.
func (src *source) Fetcher(ctx context.Context, _ string) (transfer.Fetcher, error) {
	inner, err := src.resolver.Fetcher(src.session.redactor.WithRedactedLogger(ctx), src.session.spec.String())
	if err != nil {
		return nil, src.Clean(err)
	}
	if src.ahead != nil {
		src.ahead.ctx = ctx
	}
	return &fetcher{
		inner: inner, log: src.log, registryOnly: src.session.query.Allow != nil,
		kept: src.session.keptFor(src.desc), ahead: src.ahead, downloads: src.downloads, hosts: src.session.hosts,
	}, nil
}

// Hosts implements Source.
func (src *source) Hosts() (hosts []string) {
	for _, h := range src.session.hosts {
		hosts = append(hosts, h.Name())
	}
	return hosts
}

// Served implements Source.
func (src *source) Served() (served provenance.Provenance) {
	served.Reference = src.ServedBy(src.desc.Digest).Reference
	all := src.log.allSources()
	for _, h := range src.session.hosts {
		if all[h] && !slices.Contains(served.Hosts, h.Name()) {
			served.Hosts = append(served.Hosts, h.Name())
		}
	}
	return served.Add(provenance.Provenance{Hosts: src.log.allElsewhere()})
}

// ServedBy implements Source.
func (src *source) ServedBy(d digest.Digest) (served provenance.Provenance) {
	for _, h := range src.log.sources(d) {
		served.Reference, served.Hosts = h.Reference(src.session.spec), append(served.Hosts, h.Name())
	}
	return served.Add(provenance.Provenance{Hosts: src.log.elsewhere(d)})
}

// Delivered implements Source.
func (src *source) Delivered(d digest.Digest) bool {
	others := func(h *host) bool { return !slices.Contains(src.session.hosts, h) }
	return src.log.delivered(d) && !slices.ContainsFunc(src.log.sources(d), others)
}

// Refusals implements Source.
func (src *source) Refusals() []Attempt { return src.log.withRefusals(nil) }

// Progress implements Source.
func (src *source) Progress() (waiting, bytes int64) { return src.log.progress.state() }

// Redacted implements Source.
func (src *source) Redacted(ctx context.Context) (redacted context.Context, end func()) {
	return src.session.redactor.WithBoundedLogger(ctx)
}

// Clean implements Source.
func (src *source) Clean(err error) error {
	if err == nil {
		return nil
	}
	return src.session.redactor.Wrap(err.Error(), err)
}

// Failure implements Source.
func (src *source) Failure(err error) *Error {
	var attempts []Attempt
	fe, fetching := errors.AsType[*fetchError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoProgress):
		return src.stalled(err)
	case fault.Interrupted(err):
		attempts = src.log.unfinished()
	case fetching:
		attempts = src.log.failures(fe.digest)
		if len(attempts) == 0 {
			attempts = src.blameLastHost(fe)
		}
	case errdefs.IsFailedPrecondition(err):
		// Content has not the digest or size that it must have.
		attempts = src.log.unverified(src.session.redactor.Wrap(err.Error(), err))
	case errors.Is(err, documents.ErrInvalid):
		attempts = src.blameDocument(err)
	}
	if len(attempts) == 0 {
		return nil
	}
	return src.newError(src.log.withRefusals(attempts))
}

// newError is newError for the session's reference, with all hosts that were left out.
func (src *source) newError(attempts []Attempt) *Error {
	e := newError(src.session.query.Reference, attempts, slices.Concat(src.session.leftOut, src.log.unfollowed())...)
	e.Heard = src.Heard()
	return e
}

// blameLastHost blames the host that served last, or else the first, for a
// failure that the transport did not see: redirects without end, more content than
// there should be.
func (src *source) blameLastHost(fe *fetchError) []Attempt {
	hosts := append(slices.Clone(src.session.hosts[:min(1, len(src.session.hosts))]), src.log.sources(fe.digest)...)
	if len(hosts) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s: %v", fe.digest, fe.err)
	return []Attempt{hosts[len(hosts)-1].attempt(failure.Invalid, src.session.redactor.Wrap(text, fe.err), 0)}
}

// blameDocument blames the host that served a document last for what that says.
func (src *source) blameDocument(err error) []Attempt {
	if of, ok := errors.AsType[*documents.Error](err); ok {
		if hosts := src.log.sources(of.Document); len(hosts) > 0 {
			return []Attempt{hosts[len(hosts)-1].attempt(failure.Invalid, src.session.redactor.Wrap(err.Error(), err), 0)}
		}
	}
	return src.blame(failure.Invalid, err)
}

// blame blames the registry that the name says, or else the last host.
func (src *source) blame(class failure.Class, err error) []Attempt {
	for i, h := range src.session.hosts {
		if h.Origin || i == len(src.session.hosts)-1 {
			a := h.attempt(class, src.session.redactor.Wrap(err.Error(), err), 0)
			a.Refused = class.Refuses() // in doubt it was the registry
			return []Attempt{a}
		}
	}
	return nil
}

// stalled is the failure of a transfer that got nothing any more. Nothing may
// have been asked for at the end: the transfer may have waited for a retry, or
// for somebody else's download.
func (src *source) stalled(err error) *Error {
	attempts := append(src.log.unfinished(), src.log.progress.waitsForURLs()...)
	if len(attempts) == 0 {
		attempts = src.blame(failure.Unreachable, err)
	}
	e := src.newError(src.log.withRefusals(attempts))
	if !e.Class.Refuses() {
		e.Class = failure.Unreachable
	}
	return e
}
