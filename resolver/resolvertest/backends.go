// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net/http"
	"sync"
)

// Backends are two behind one address, of which a balancer, or DNS, chooses one for each connection: the first until
// it is taken out of service, and then the second. The first keeps its connections, and has no good answer any more.
// Safe for concurrent use.
type Backends struct {
	// Out is how the first answers then.
	Out http.HandlerFunc

	mu    sync.Mutex
	out   bool
	first map[string]bool // connections to the first
	asked int             // over those, since it is out of service
}

// Serve answers as the backend of the request's connection, which has next to answer as long as it is in service. It
// can be what [Registry.Script] runs.
func (b *Backends) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if b.isOut(r.RemoteAddr) {
		b.Out(w, r)
		return
	}
	next.ServeHTTP(w, r)
}

func (b *Backends) isOut(connection string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil {
		b.first = map[string]bool{}
	}
	if !b.out {
		b.first[connection] = true
	}
	out := b.out && b.first[connection]
	if out {
		b.asked++
	}
	return out
}

// TakeOut takes the first backend out of service.
func (b *Backends) TakeOut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = true
}

// Asked returns how many requests the first backend has got since then.
func (b *Backends) Asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}
