// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"sync"

	"github.com/opencontainers/go-digest"
)

// openness is what a session knows of whether everybody would have been served what its caller
// was. One answer says it of itself alone: a host can give an index, or the answer to HEAD, to
// everybody, and what stands behind that to some. Safe for concurrent use; nil takes no note.
type openness struct {
	mu        sync.Mutex
	guarded   bool
	shown     bool // see Session.CredentialsShown
	delivered map[digest.Digest]bool
}

// guard takes note that somebody was shown who asks, for something that was served. shown tells that
// it was by the session's credentials, and not by the node's alone.
func (o *openness) guard(shown bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guarded, o.shown = true, o.shown || shown
}

// deliver takes note of whole documents with these digests.
func (o *openness) deliver(documents ...digest.Digest) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.delivered == nil {
		o.delivered = map[digest.Digest]bool{}
	}
	for _, d := range documents {
		o.delivered[d] = true
	}
}

// answered takes note of the answer to a check.
func (o *openness) answered(found Resolution) {
	if !found.Anonymous {
		o.guard(found.shown)
	}
	o.deliver(found.delivered...)
}

// toAll is [Session.OpenToAll].
func (o *openness) toAll(manifest digest.Digest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.guarded && o.delivered[manifest]
}

// credentialsShown is [Session.CredentialsShown].
func (o *openness) credentialsShown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shown
}
