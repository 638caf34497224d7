// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// Session is one reference, from its check to the end of its pull, asked with
// one caller's credentials. Connections and tokens are shared with other
// sessions. Safe for concurrent use.
type Session interface {
	// Resolve asks the hosts, one after the other, until one answers. The
	// timeout bounds all hosts, tokens and retries together; each host may use
	// its equal share of what is left. 0 or less means that only ctx bounds it.
	//
	// Hosts that are known to be in trouble are asked after all others, and only if a
	// fresh probe finds them well, or there is nothing to fall back on. An answer with
	// authority ends the asking: see [Query.Authority].
	//
	// The error is an [*Error], or that of ctx when ctx has ended before anybody
	// refused these credentials.
	Resolve(ctx context.Context, timeout time.Duration) (Resolution, error)
	// Source returns a source for desc, which must have size and media type. It
	// uses the hosts, connections and tokens of the session. Each pull needs a
	// source of its own.
	Source(desc ocispec.Descriptor) Source
	// Origin returns the host[:port] of the registry that the name says, as
	// attempts and resolutions have it; "" when it must not be asked.
	Origin() string
	// Named reports whether the operator has a hosts.toml for the registry of the name
	// itself: _default is one for whatever references name.
	Named() bool
	// OpenToAll reports whether everybody would have been served what the session was, and
	// the manifest with that digest is a part of it: a check or a source of the session has
	// got the bytes of it, and no host was shown credentials or the node's identity for
	// anything that it has served. It may be called after Close.
	OpenToAll(manifest digest.Digest) bool
	// Delivered reports whether a check or a source of the session has got the bytes of the manifest
	// with that digest, by whatever was shown. It may be called after Close.
	Delivered(manifest digest.Digest) bool
	// NodeShown reports whether a host was shown a header or a client certificate of the node's
	// configuration, for anything that it has served. It may be called after Close.
	NodeShown() bool
	// MayShow reports whether a pull beside the session, by all hosts of the configuration, may show
	// one who asks: the node, by a header or a client certificate, or whose the session's
	// credentials are, be they for a host to which others redirect.
	MayShow() bool
	// CredentialsShown reports whether a host was shown the credentials of the session, or a token
	// for them, for anything that it has served. It may be called after Close.
	CredentialsShown() bool
	// Forget drops the manifest that a check has read, so that a source asks for it anew.
	Forget()
	// Close ends the session and its sources. Its connections stay for other
	// sessions, unless the configuration of the hosts has changed.
	Close()
}

// session implements Session.
type session struct {
	query    Query
	spec     reference.Spec // as the hosts are asked for it: see hosts.Set.Name
	headers  http.Header    // of all requests
	hosts    []*host
	leftOut  []string // names of hosts that are not allowed
	redactor *redact.Redactor
	kept     *atomic.Pointer[document] // the manifest that a check has read for the pull; to nil: none
	said     *sayers                   // of its checks
	named    bool                      // see Named
	openness *openness                 // of all that it was served
	// identified says that the configuration shows a host who the node is, be it one that is left out.
	identified bool
	release    func() // of the hosts, once
}

// OpenToAll implements Session.
func (s *session) OpenToAll(manifest digest.Digest) bool { return s.openness.toAll(manifest) }

// Delivered implements Session.
func (s *session) Delivered(manifest digest.Digest) bool { return s.openness.has(manifest) }

// NodeShown implements Session.
func (s *session) NodeShown() bool { return s.openness.nodeShown() }

// MayShow implements Session.
func (s *session) MayShow() bool { return s.identified || s.query.Credentials != nil }

// CredentialsShown implements Session.
func (s *session) CredentialsShown() bool { return s.openness.credentialsShown() }

// Forget implements Session.
func (s *session) Forget() { s.kept.Store(nil) }

// Close implements Session.
func (s *session) Close() {
	s.Forget()
	s.release()
}

// Named implements Session.
func (s *session) Named() bool { return s.named }

// Origin implements Session.
func (s *session) Origin() string {
	for _, h := range s.hosts {
		if h.Origin {
			return h.By()
		}
	}
	return ""
}

// Resolution is the answer to a check.
type Resolution struct {
	// Descriptor is what the name stands for. Its size is 0, and its media type
	// may be missing, if the digest is the known one and the registry did not
	// tell: it must not be used for a pull then.
	Descriptor ocispec.Descriptor

	// Anonymous tells that the host answered without having been shown any
	// credentials: it would have answered anybody. That says nothing of the rest of the
	// image: see [Session.OpenToAll].
	Anonymous bool

	// ByNode tells that the host was shown a header or a client certificate of the
	// node's configuration, which may be why it answered.
	ByNode bool

	// OriginFailed is why the registry of the name could not say, where a mirror has
	// answered in its place ([OriginThenMirrors]); None otherwise.
	OriginFailed failure.Class

	Host     string        // that answered, as in Attempt
	Attempts []Attempt     // the hosts that failed before
	Elapsed  time.Duration // of the whole check

	delivered []digest.Digest // documents of which it has the bytes
	shown     bool            // see Session.CredentialsShown
}

// Resolve implements Session.
func (s *session) Resolve(ctx context.Context, timeout time.Duration) (Resolution, error) {
	hosts, attempts := s.candidates()
	start := time.Now()
	within := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, timeout, transport.ErrBudget)
		defer cancel()
	}
	waits := health.NewWaits(func() time.Duration { return purpose.Purpose{}.TimeLeft(within) })
	troubled := map[*host]health.Key{} // of those that are passed over: for whose trouble
	for _, r := range []round{wellHosts, recoveredHosts, allHosts} {
		if falls := s.query.Fallback.Has(decidingClass(attempts)); r == recoveredHosts && !falls || r == allHosts && falls {
			continue
		}
		var postponed []*host
		for i, h := range hosts {
			t := turn{hosts: hosts[i:], attempts: attempts, round: r, postponed: len(postponed) > 0, troubled: troubled}
			if !s.mayAnswer(h, attempts) || r == recoveredHosts && s.leadsToTrouble(within, t, waits) {
				postponed = append(postponed, h)
				continue
			}
			begun := time.Now()
			found, open, err := s.ask(within, t, s.query.Absent && s.deliversFirst(h, attempts), waits)
			attempts = beside(attempts, h)
			if open == nil && err == nil {
				found.Host, found.Attempts, found.Elapsed = h.By(), attempts, time.Since(start)
				found.OriginFailed = s.inPlace(h, attempts)
				s.openness.answered(found)
				s.said.add(found.Descriptor.Digest, h)
				return found, nil
			}
			failed := failedCheck(h, open, err, time.Since(begun))
			attempts = append(attempts, failed)
			if key, passed := passedOver(h, open, err); passed {
				postponed = append(postponed, h)
				troubled[h] = key
			}
			if ctx.Err() != nil && !slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Refused }) {
				return Resolution{}, ctx.Err()
			}
			if failed.Authority {
				return Resolution{}, newError(s.query.Reference, attempts, s.leftOut...)
			}
		}
		hosts = postponed
	}
	return Resolution{}, newError(s.query.Reference, attempts, s.leftOut...)
}
