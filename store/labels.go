// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Prefix is what the keys of all of pullwarden's labels begin with.
const Prefix = "pullwarden.io/"

// The labels on an image record.
const (
	LabelPullSource     = Prefix + "pull-source"
	LabelContentSources = Prefix + "content-sources"
	LabelUnknownSources = Prefix + "unknown-sources"
	LabelCompared       = Prefix + "compared"
	LabelHasLayers      = Prefix + "has-layers"
	LabelPulledAt       = Prefix + "pulled-at"
	LabelVerifiedDigest = Prefix + "verified-digest"
	LabelVerifiedAt     = Prefix + "verified-at"
	LabelVerifiedBy     = Prefix + "verified-by"
	LabelManifestRead   = Prefix + "manifest-read"
	LabelStaleSince     = Prefix + "stale-since"
	LabelStaleReason    = Prefix + "stale-reason"
	// LabelMirrorDigest is the digest that a mirror said in the place of the
	// registry, which could not be asked, since its last check.
	LabelMirrorDigest = Prefix + "mirror-digest"
	// LabelPinned stands beside CRI's label of a pin that is pullwarden's: when the
	// image was last known to be used. A pin without it is somebody else's.
	LabelPinned = Prefix + "pinned"
	// LabelAccess begins the labels of proofs; a fingerprint follows, and maybe [earlier].
	LabelAccess = Prefix + "access."
)

// State holds what the node knows of an image besides its content. Times are
// UTC with a resolution of one second; a zero value means "not known".
type State struct {
	// PullSource is the reference as the host that served the manifest knows it.
	PullSource string
	// ContentSources are the hosts that served manifest and blobs, if more than
	// one did.
	ContentSources []string
	// MoreSources says how many hosts ContentSources lacks at least, because a
	// label had no room for them, or nobody knows them; 0 = none. UnknownSources is set then, too.
	MoreSources int
	// UnknownSources says that part of an image with a PullSource came from
	// nobody knows where: somebody else brought it to the node.
	UnknownSources bool
	// Compared says that all of the image has been compared with the bytes of the hosts of
	// PullSource and ContentSources, and what it unpacks to, whatever brought it to the node.
	Compared bool
	// HasLayers says that hosts of the name have delivered all layers of the image by it, or shown that they have them:
	// others may have brought what a manifest names to the node. Who has compared the image has made sure of that, too.
	HasLayers bool
	PulledAt  time.Time
	Verified  Verified
	// MirrorDigest is the digest that a mirror has said in the place of the registry
	// of the name. It is no check: proofs hold by it, ages do not count from it.
	MirrorDigest digest.Digest
	Stale        Stale
	// Access holds the proofs of access that are valid, by the callers that may
	// have this image under this name.
	Access map[Fingerprint]Proof
	// Unshown says so of the proofs in Access that a pull has given: see [Verified.Unshown]. One of
	// which anything was served for the caller's credentials has shown them.
	Unshown bool
	// Earlier holds proofs of them that another host than that in Access has given before, where
	// they may still count: see [State.Proofs].
	Earlier map[Fingerprint]Proof
	// Restricted says that a registry was asked about this record, so that it is
	// for callers with a proof only. Without it the image was imported, or is
	// older than pullwarden, and no caller had to prove anything.
	Restricted bool
	// Pin is the record's own: marks of checks and pulls leave it alone.
	Pin Pin
}

// Stale says that the image was used although the registry of its name did not
// confirm it.
type Stale struct {
	Since  time.Time
	Reason StaleReason
}

// StaleReason says why: a failure class, or one of the constants. It is not empty.
type StaleReason string

const (
	// MirrorFallback is that a mirror said the digest in the place of the registry.
	MirrorFallback StaleReason = "mirror_fallback"
	// PullDeadline is that the registry has another digest, and the pull of it took
	// longer than the request waited.
	PullDeadline StaleReason = "pull_deadline"
)

// parseStaleReason is the inverse of a conversion to string; false for what is none.
func parseStaleReason(text string) (StaleReason, bool) {
	if reason := StaleReason(text); reason == MirrorFallback || reason == PullDeadline {
		return reason, true
	}
	class, err := failure.Parse(text)
	return StaleReason(class), err == nil
}

// Decode reads the state of the record of that name, which points at target, from
// its labels. Labels that were written for another record or digest count as
// absent. A label that cannot be read proves nothing: doubt means "not checked",
// never "checked". All that reads these labels goes this way.
func Decode(name string, target digest.Digest, labels map[string]string) State {
	switch relationOf(name, target, labels) {
	case foreign:
		return State{Pin: decodePin(labels)}
	case doubtful:
		return State{Restricted: anyRestricts(labels), Pin: decodePin(labels)}
	}
	s := State{
		PullSource:     labels[LabelPullSource],
		UnknownSources: labels[LabelUnknownSources] != "",
		Compared:       labels[LabelCompared] == encodeBool(true),
		HasLayers:      labels[LabelHasLayers] == encodeBool(true),
		PulledAt:       decodeTime(labels[LabelPulledAt]),
		Verified:       decodeVerified(target, labels),
		Restricted:     anyRestricts(labels),
		Pin:            decodePin(labels),
	}
	s.ContentSources, s.MoreSources = DecodeSources(labels[LabelContentSources])
	s.UnknownSources = s.UnknownSources || s.MoreSources > 0
	if labels[LabelMirrorDigest] == target.String() {
		s.MirrorDigest = target
	}
	reason, known := parseStaleReason(labels[LabelStaleReason])
	if since := decodeTime(labels[LabelStaleSince]); known && !since.IsZero() {
		s.Stale = Stale{Since: since, Reason: reason}
	}
	s.decodeAccess(labels)
	return s
}

// Said reports whether a host has said that the name has the digest: proofs hold only
// together with that.
func (s *State) Said() bool { return s.Verified.Digest != "" || s.MirrorDigest != "" }

// decodeAccess reads the proofs. They were given together with a digest: where
// that is not the target, they do not hold.
func (s *State) decodeAccess(labels map[string]string) {
	if !s.Said() {
		return
	}
	for label, value := range labels {
		f, before, ok := holderOf(label)
		if !ok || value == "" {
			continue
		}
		proof, proofs := decodeProof(value), &s.Access
		if before {
			proofs = &s.Earlier
		}
		if proof.At.IsZero() {
			continue
		}
		if *proofs == nil {
			*proofs = map[Fingerprint]Proof{}
		}
		(*proofs)[f] = proof
	}
}

// anyRestricts reports whether one of the labels tells of a check or a proof,
// readable or not.
func anyRestricts(labels map[string]string) bool {
	for label, value := range labels {
		if value != "" && restricts(label) {
			return true
		}
	}
	return false
}

// restricts reports whether a label makes an image one that takes a proof.
func restricts(label string) bool { return isDigest(label) || strings.HasPrefix(label, LabelAccess) }

// isDigest reports whether the value of a label is the digest that proofs were given
// with.
func isDigest(label string) bool { return label == LabelVerifiedDigest || label == LabelMirrorDigest }

// saysDigest reports whether labels tell that a host has said that digest.
func saysDigest(labels map[string]string, target digest.Digest) bool {
	return labels[LabelVerifiedDigest] == target.String() || labels[LabelMirrorDigest] == target.String()
}

// saysAnyDigest reports whether labels tell that a host has said a digest: without one
// no proof holds.
func saysAnyDigest(labels map[string]string) bool {
	return labels[LabelVerifiedDigest] != "" || labels[LabelMirrorDigest] != ""
}

// Labels is the inverse of [Decode]: the labels for the record of that name, which
// points at target. Every label is in the map, so that it can be laid over an
// older state by [Supersede]; an empty value takes the label away. Proofs, a check that has read
// the manifest, and earlier ones are only added: those of before stay.
func (s State) Labels(name string, target digest.Digest) map[string]string {
	labels := s.change()
	maps.Copy(labels, s.content())
	labels[LabelPinned] = s.Pin.encode()
	labels[LabelRecord] = binding(name, target)
	return labels
}

// content are the labels that say where the content of an image came from, and when.
func (s State) content() map[string]string {
	sources := EncodeSources(s.ContentSources, s.MoreSources)
	_, leftOut := DecodeSources(sources)
	return map[string]string{
		LabelPullSource:     s.PullSource,
		LabelContentSources: sources,
		LabelUnknownSources: encodeBool(s.UnknownSources || leftOut > 0),
		LabelCompared:       encodeBool(s.Compared),
		LabelHasLayers:      encodeBool(s.HasLayers),
		LabelPulledAt:       encodeTime(s.PulledAt),
	}
}

// change is what a mark changes, for whichever record.
func (s State) change() map[string]string {
	labels := s.Verified.change()
	maps.Copy(labels, map[string]string{
		LabelMirrorDigest: s.MirrorDigest.String(),
		LabelStaleSince:   encodeTime(s.Stale.Since),
		LabelStaleReason:  string(s.Stale.Reason),
	})
	for f, proof := range s.Earlier {
		labels[besideProof(f)] = proof.encode()
	}
	for f, proof := range s.Access {
		proof.give(labels, f, s.Verified.Origin)
	}
	return labels
}

func encodeBool(b bool) string {
	if !b {
		return ""
	}
	return "true"
}

func encodeTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// decodeTime is the inverse of encodeTime; zero for what cannot be read, or is of a year that
// JSON cannot have once it is in UTC.
func decodeTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
