// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// progress knows what a pull is at. The zero value is ready, and safe for concurrent use.
type progress struct {
	mu        sync.Mutex
	unpacking map[digest.Digest]int
	received  map[digest.Digest]time.Time // the last bytes
}

// receives takes note that some of a content has come. containerd hands on a MiB at a time, so that a trickle is not much.
func (p *progress) receives(d digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == nil {
		p.received = map[digest.Digest]time.Time{}
	}
	p.received[d] = time.Now()
}

// unpacks takes note that a layer is being unpacked, until ended is called.
func (p *progress) unpacks(d digest.Digest) (ended func()) {
	p.add(d, 1)
	return func() { p.add(d, -1) }
}

func (p *progress) add(d digest.Digest, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpacking == nil {
		p.unpacking = map[digest.Digest]int{}
	}
	if p.unpacking[d] += n; p.unpacking[d] == 0 {
		delete(p.unpacking, d)
	}
}

// last returns when the pull was last at that content; zero = never.
func (p *progress) last(d digest.Digest) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unpacking[d] > 0 {
		return time.Now()
	}
	return p.received[d]
}
