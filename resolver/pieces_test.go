// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A host that breaks one piece of a layer off, once, is asked for the rest, or the next one is, also
// while an earlier piece is under way.
func TestPieceThatIsBrokenOffOnce(t *testing.T) {
	for name, end := range map[string]ending{"closed": closes, "reset": resolvertest.ResetOf} {
		for _, n := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				list, hosts := registries(t, n)
				p := newPuller(t, pieces, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
				source, err := p.pull(t, func() {
					list[0].Script(failsOnce(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
						beginAndEnd(w, req, next, 100, end)
					}))
				})
				if err != nil {
					t.Errorf("%v, which is %v", err, source.Failure(err))
				}
			})
		}
	}
}

// failsOnce has the third piece of each layer failed, once, while the second is under way.
func failsOnce(fail resolvertest.ScriptFunc) resolvertest.ScriptFunc {
	var asked sync.Map
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		piece := req.Header.Get("Range")
		_, again := asked.LoadOrStore(req.URL.Path+piece, true)
		switch {
		case !getsBlob(req) || again:
		case strings.HasSuffix(piece, "=8192-"):
			time.Sleep(300 * time.Millisecond) // it is under way
		case strings.HasSuffix(piece, "=16384-"):
			fail(w, req, next)
			return
		}
		next.ServeHTTP(w, req)
	}
}

// beginAndEnd sends the first bytes of an answer, and breaks it off.
func beginAndEnd(w http.ResponseWriter, req *http.Request, next http.Handler, bytes int, end ending) {
	whole := &buffer{}
	next.ServeHTTP(whole, req)
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(whole.status())
	_, _ = w.Write(whole.Bytes()[:min(bytes, whole.Len())])
	_ = http.NewResponseController(w).Flush()
	end(req)
}

// A mirror that goes away in the middle of a layer, or has lost the rest, leaves that to the registry,
// also where layers are fetched in pieces.
func TestMirrorThatGoesAwayInPieces(t *testing.T) {
	for name, config := range map[string]transferlocal.TransferConfig{"whole": {}, "pieces": pieces} {
		for _, status := range []int{0, 404, 429, 503} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				list, hosts := registries(t, 2)
				p := newPuller(t, config, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
				source, err := p.pull(t, func() {
					list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
						asks := req.Header.Get("Range")
						switch {
						case !getsBlob(req) || isProbe(req):
							next.ServeHTTP(w, req)
						case asks == "" || asks == "bytes=0-": // the beginning
							beginAndEnd(w, req, next, 8<<10, closes)
						case status == 0:
							resolvertest.ResetOf(req)
						default:
							w.WriteHeader(status)
						}
					})
				})
				if err != nil {
					t.Errorf("%v, which is %v", err, source.Failure(err))
				}
			})
		}
	}
}

// A piece that the only host refuses, or has no more of its quota for, is not asked for again and again.
func TestPieceThatIsRefused(t *testing.T) {
	for status, class := range map[int]failure.Class{403: failure.Forbidden, 429: failure.RateLimited} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			list, hosts := registries(t, 1)
			p := newPuller(t, pieces, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			var asked sync.Map // how often for each piece but the first ones
			source, err := p.pull(t, func() {
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					piece := req.Header.Get("Range")
					if !getsBlob(req) || isProbe(req) || piece == "" || piece == "bytes=0-" {
						next.ServeHTTP(w, req)
						return
					}
					n, _ := asked.LoadOrStore(req.URL.Path+piece, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
					w.WriteHeader(status)
				})
			})
			if e := source.Failure(err); e == nil || e.Class != class {
				t.Errorf("got %v, %v", e, err)
			}
			asked.Range(func(piece, n any) bool {
				if n := n.(*atomic.Int64).Load(); n > 3 { // of 429, each request has three tries
					t.Errorf("asked %d times for %s", n, piece)
				}
				return true
			})
		})
	}
}
