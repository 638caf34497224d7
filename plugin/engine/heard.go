// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// heard is what a request has heard in all its checks and pulls, also before it began anew: a later answer or failure takes
// none of it back. Of what is tried again the last try is heard: a 429, and then a 503 after its Retry-After, is silence.
type heard struct {
	// originAnswered says that the registry of the name has answered, be it that it failed: proofs that count while it is
	// silent count no more.
	originAnswered bool
	// elsewhere says that a pull has asked a host of a layer's urls.
	elsewhere bool
	// denied are the refusals of the caller. They have ended proofs; what they would end is none for this request that
	// others are given since.
	denied []store.Refusal
}

// hearAnswer takes in an answer to a check, also to one for the cached image by its digest.
func (h *heard) hearAnswer(a answer) {
	check := a.check(NotAsked)
	h.originAnswered = h.originAnswered || check.byOrigin()
}

// hearFailure takes in why registries have failed. In doubt the registry of the name has answered.
func (h *heard) hearFailure(cause *resolver.Error) {
	check := Check{Class: cause.Class, OriginFailed: h.originFailed(cause)}
	h.originAnswered = h.originAnswered || check.byOrigin()
	h.hearPull(cause.Heard)
}

// hearPull takes in what has happened in a pull, or where a manifest was read in its way, whatever came of that.
func (h *heard) hearPull(p resolver.Heard) {
	h.originAnswered = h.originAnswered || p.OriginAnswered
	h.elsewhere = h.elsewhere || p.URLs
}

// endsOpen reports whether an image of which nothing is known is nobody's any more: see [Check].
func (h *heard) endsOpen() bool { return h.elsewhere && h.originAnswered }

// deny takes in refusals of the caller, which have ended proofs, also where another host has answered then.
func (h *heard) deny(refusals ...store.Refusal) {
	for _, no := range refusals {
		if !slices.Contains(h.denied, no) {
			h.denied = append(slices.Clip(h.denied), no)
		}
	}
}

// originFailed is why the registry of the name has not answered in the whole request, None where
// it has: an authority's answer may be the class of a failure in its place.
func (h *heard) originFailed(cause *resolver.Error) (class failure.Class) {
	if h.originAnswered {
		return failure.None
	}
	for _, a := range cause.Attempts {
		switch {
		case a.Origin && !a.Class.Silent():
			return failure.None
		case a.Origin:
			class = a.Class
		}
	}
	return class
}
