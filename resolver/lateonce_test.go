// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type stuckTLS struct{}

func (stuckTLS) Error() string   { return "net/http: TLS handshake timeout" }
func (stuckTLS) Timeout() bool   { return true }
func (stuckTLS) Temporary() bool { return true }

// A node reaches its mirror alone. Where that is late once, no further layer waits for the registry, which
// cannot be reached.
func TestOnlyMirrorThatIsLateOnce(t *testing.T) {
	for name, late := range map[string]scripted{
		"handshake": after(2*time.Second, func(*http.Request) (*http.Response, error) { return nil, stuckTLS{} }),
		"header": after(30*time.Second, func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}),
		"silence in the middle": stall(http.StatusOK, nil, "la"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var first atomic.Bool
				first.Store(true)
				n.set(mirrorName, blobs(func(req *http.Request) (*http.Response, error) {
					if first.CompareAndSwap(true, false) {
						return late(req)
					}
					return layerAnswer(req)
				}))
				n.set(registryName, after(30*time.Second, func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
				}))
				options := fakeOptions(n.roundTrip, mirrorName, registryName)
				options.ProgressTimeout = 5 * time.Minute
				took := fetchLayers(t, newResolver(t, options), 8, 10*time.Second)
				for i, later := range took[2:] {
					if later > time.Second {
						t.Errorf("layer %d took %v", i+2, later)
					}
				}
			})
		})
	}
}
