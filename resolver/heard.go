// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"sync/atomic"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Heard is what has happened in a pull, or where something is read in its way, whatever has become of that: why it failed
// says nothing of content that came.
type Heard struct {
	OriginAnswered bool // the registry that the name says has given content, or has failed, but not by being silent
	URLs           bool // a host of a layer's urls was asked, which the author of the manifest has chosen
}

// hearing hears that in a pull, and in what is prefetched for it. Nil hears nothing. Safe for concurrent use.
type hearing struct{ originAnswered, urls atomic.Bool }

// answered takes note that a host has answered, None = with content, or of why it has not.
func (l *hearing) answered(h *host, class failure.Class) {
	if l != nil && h.Origin && !class.Silent() {
		l.originAnswered.Store(true)
	}
}

func (l *hearing) asksURL() {
	if l != nil {
		l.urls.Store(true)
	}
}

// Heard implements Source.
func (src *source) Heard() Heard {
	return Heard{OriginAnswered: src.log.heard.originAnswered.Load(), URLs: src.log.heard.urls.Load()}
}
