// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// backends are two behind one address, as a balancer of connections, or DNS, has them: once the first is out of
// service, new connections lead to the other one, and those that it has go on.
type backends struct {
	hangs bool // out of service, in the place of 503

	mu    sync.Mutex
	out   bool
	first map[string]bool // connections to the first
	asked int             // over those, out of service
}

func (b *backends) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	b.mu.Lock()
	if !b.out {
		b.first[r.RemoteAddr] = true
	}
	out := b.out && b.first[r.RemoteAddr]
	if out {
		b.asked++
	}
	b.mu.Unlock()
	switch {
	case out && b.hangs: // its workers do; what speaks HTTP/2 answers pings
		<-r.Context().Done()
	case out:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		next.ServeHTTP(w, r)
	}
}

// TestBackendOutOfService holds that a registry is asked over a new connection once the backend at the end of the
// old one fails: the image that has changed comes, and one that is not there.
func TestBackendOutOfService(t *testing.T) {
	for name, tc := range map[string]struct {
		options []resolvertest.Option
		hangs   bool
	}{
		"503":           {[]resolvertest.Option{resolvertest.WithTLS(), resolvertest.WithoutHTTP2()}, false},
		"503, HTTP/2":   {[]resolvertest.Option{resolvertest.WithTLS()}, false},
		"hangs, HTTP/2": {[]resolvertest.Option{resolvertest.WithTLS()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, resolvertest.New(t, tc.options...), nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
			b := &backends{hangs: tc.hangs, first: map[string]bool{}}
			n.Registry.Script(b.serve)
			n.Push("app:1", nodetest.Image(1))
			n.Push("other:1", nodetest.Image(3))
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			b.mu.Lock()
			b.out = true
			b.mu.Unlock()
			changed := n.Push("app:1", nodetest.Image(2))
			nodetest.Eventually(t, "the changed image is pulled", func() bool {
				n.MustPull(ref)
				return n.Target(ref) == changed
			})
			n.MustPull(nodetest.Named("other:1"))
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.asked == 0 || b.asked > 3 { // some may be under way at a time
				t.Errorf("%d requests went to the backend that is out of service", b.asked)
			}
		})
	}
}
