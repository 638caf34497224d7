// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// hangs is a backend whose workers do; what speaks HTTP/2 answers pings.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestBackendOutOfService holds that a registry is asked over a new connection once the backend at the end of the
// old one fails: the image that has changed comes, and one that is not there.
func TestBackendOutOfService(t *testing.T) {
	for name, tc := range map[string]struct {
		options []resolvertest.Option
		out     http.HandlerFunc
	}{
		"503":           {[]resolvertest.Option{resolvertest.WithTLS(), resolvertest.WithoutHTTP2()}, unavailable},
		"503, HTTP/2":   {[]resolvertest.Option{resolvertest.WithTLS()}, unavailable},
		"hangs, HTTP/2": {[]resolvertest.Option{resolvertest.WithTLS()}, hangs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, resolvertest.New(t, tc.options...), nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
			b := &resolvertest.Backends{Out: tc.out}
			n.Registry.Script(b.Serve)
			n.Push("app:1", nodetest.Image(1))
			n.Push("other:1", nodetest.Image(3))
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			b.TakeOut()
			changed := n.Push("app:1", nodetest.Image(2))
			nodetest.Eventually(t, "the changed image is pulled", func() bool {
				n.MustPull(ref)
				return n.Target(ref) == changed
			})
			n.MustPull(nodetest.Named("other:1"))
			if asked := b.Asked(); asked == 0 || asked > 3 { // some may be under way at a time
				t.Errorf("%d requests went to the backend that is out of service", asked)
			}
		})
	}
}
