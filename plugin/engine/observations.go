// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "sync"

// maxDeciding bounds the observations that ask a registry at the same time. A node
// pulls far fewer images at once.
const maxDeciding = 64

// observations counts those that decide. The zero value is ready.
type observations struct {
	mu       sync.Mutex
	deciding int
}

// decide lets an observation decide, unless too many do. It must be followed by
// decided if it returns true.
func (o *observations) decide() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deciding >= maxDeciding {
		return false
	}
	o.deciding++
	return true
}

func (o *observations) decided() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deciding--
}
