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
	node      bool // see Session.NodeShown
	shown     bool // see Session.CredentialsShown
	delivered map[digest.Digest]bool
}

// guard takes note that somebody was shown who asks, for something that was served: node and shown
// tell that it was by what the configuration shows of the node, and by the session's credentials.
// Where neither holds, it was a token for everybody.
func (o *openness) guard(node, shown bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guarded, o.node, o.shown = true, o.node || node, o.shown || shown
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
		o.guard(found.ByNode, found.shown)
	}
	o.deliver(found.delivered...)
}

// toAll is [Session.OpenToAll].
func (o *openness) toAll(manifest digest.Digest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.guarded && o.delivered[manifest]
}

// has is [Session.Delivered].
func (o *openness) has(manifest digest.Digest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.delivered[manifest]
}

// nodeShown is [Session.NodeShown].
func (o *openness) nodeShown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.node
}

// credentialsShown is [Session.CredentialsShown].
func (o *openness) credentialsShown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shown
}
