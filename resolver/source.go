// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Source is where a pull gets one image from: exactly the one that was
// resolved. It takes the place of containerd's own source of a transfer.
type Source struct {
	session  *Session
	desc     ocispec.Descriptor
	resolver remotes.Resolver
	record   record
}

var (
	_ transfer.ImageFetcher              = (*Source)(nil)
	_ transfer.ImageResolverOptionSetter = (*Source)(nil)
	_ fmt.Stringer                       = (*Source)(nil)
)

// Source returns a source for desc, which must have size and media type. It
// uses the hosts, connections and tokens of the session. Each pull needs a
// source of its own.
func (s *Session) Source(desc ocispec.Descriptor) *Source {
	return &Source{session: s, desc: desc, resolver: s.resolver(s.hosts...), record: record{secrets: s.secrets}}
}

// String names the source in the progress of a pull.
func (src *Source) String() string {
	return fmt.Sprintf("OCI Registry (%s as %s)", src.session.reference, src.desc.Digest)
}

// Image returns the reference.
func (src *Source) Image() string { return src.session.reference }

// Resolve returns the reference and the descriptor of the source. It asks
// nobody.
func (src *Source) Resolve(context.Context) (name string, desc ocispec.Descriptor, err error) {
	return src.session.reference, src.desc, nil
}

// SetResolverOptions sets the limits of the fetchers that are made later.
func (src *Source) SetResolverOptions(options ...transfer.ImageResolverOption) {
	if r, ok := src.resolver.(remotes.ResolverWithOptions); ok {
		r.SetOptions(options...)
	}
}

// Fetcher returns a fetcher that asks the hosts in the order of hosts.toml.
func (src *Source) Fetcher(ctx context.Context, ref string) (transfer.Fetcher, error) {
	inner, err := src.resolver.Fetcher(src.session.secrets.discreetly(ctx), ref)
	if err != nil {
		return nil, src.session.secrets.wrap(err.Error(), err)
	}
	return &fetcher{inner: inner, record: &src.record}, nil
}

// Served is who really served bytes in a pull. Hosts are spelled as in
// references: docker.io, mirror.example.com:5000.
type Served struct {
	// ManifestHost served the manifest or index that the name stands for; ""
	// when nobody did because it was there.
	ManifestHost string

	// ManifestReference is the reference as ManifestHost knows it, such as
	// mirror.example.com:5000/library/nginx:1.27; "" like ManifestHost.
	ManifestReference string

	// ContentHosts served anything, the manifest included, in the order of
	// hosts.toml.
	ContentHosts []string
}

// Served tells who has served bytes so far. Layers that say themselves where
// they are (foreign layers) are not in it.
func (src *Source) Served() Served {
	var served Served
	if sources := src.record.sources(src.desc.Digest); len(sources) > 0 {
		h := sources[len(sources)-1]
		served.ManifestHost, served.ManifestReference = h.name(), h.reference(src.session.spec)
	}
	all := src.record.allSources()
	for _, h := range src.session.hosts {
		if all[h] && !slices.Contains(served.ContentHosts, h.name()) {
			served.ContentHosts = append(served.ContentHosts, h.name())
		}
	}
	return served
}

// Hosts returns the hosts that may serve content, in the order of hosts.toml.
func (src *Source) Hosts() (hosts []string) {
	for _, h := range src.session.hosts {
		hosts = append(hosts, h.name())
	}
	return hosts
}

// ServedBy tells who has served bytes of one digest so far, in the order in
// which they did so last, and what the last of them calls the image. Both are
// empty when nobody did.
func (src *Source) ServedBy(d digest.Digest) (reference string, hosts []string) {
	for _, h := range src.record.sources(d) {
		reference, hosts = h.reference(src.session.spec), append(hosts, h.name())
	}
	return reference, hosts
}

// Gave reports whether a whole document with that digest has come from the
// source. It is false for content that was there already, and for layers.
func (src *Source) Gave(d digest.Digest) bool { return src.record.given(d) }

// Failure judges the error of a transfer from this source by what was seen of
// the registries; when containerd pulled without this source, by what the error
// itself shows. It returns nil when none of them was at fault: no space, an image
// verifier, a layer that does not unpack.
//
// Call it only while the caller's own context is alive: an interrupted transfer
// then is one that containerd gave up because nothing came any more.
func (src *Source) Failure(err error) *Error {
	var attempts []Attempt
	fe, fetching := errors.AsType[*fetchError](err)
	switch {
	case err == nil:
		return nil
	case interrupted(err):
		attempts = src.record.unfinished()
	case fetching:
		attempts = src.record.failures(fe.digest)
		if len(attempts) == 0 {
			attempts = src.unexplained(fe)
		}
	case errdefs.IsFailedPrecondition(err):
		// Content has not the digest or size that it must have.
		attempts = src.record.unchecked(src.session.secrets.wrap(err.Error(), err))
	}
	if len(attempts) == 0 && !fetching && src.record.untouched() {
		attempts = src.suspects(err)
	}
	if len(attempts) == 0 {
		return nil
	}
	return newError(src.session.reference, attempts)
}

// unexplained blames the host that served last, or else the first, for a
// failure that the transport did not see: redirects without end, an unknown
// encoding, more content than there should be.
func (src *Source) unexplained(fe *fetchError) []Attempt {
	hosts := append(slices.Clone(src.session.hosts[:min(1, len(src.session.hosts))]), src.record.sources(fe.digest)...)
	if len(hosts) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s: %v", fe.digest, fe.err)
	return []Attempt{hosts[len(hosts)-1].attempt(failure.Invalid, src.session.secrets.wrap(text, fe.err), 0)}
}
