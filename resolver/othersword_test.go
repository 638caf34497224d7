// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
)

// A registry redirects to a storage service, which refuses one piece, once, while an earlier one is
// under way. The registry itself has said nothing of the kind.
func TestPieceThatAStorageServiceRefusesOnce(t *testing.T) {
	for _, status := range []int{200, 400, 403, 404, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			list, _ := registries(t, 2)
			hosts := chain(list[0].URL())
			p := newPuller(t, pieces, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if !getsBlob(req) {
						next.ServeHTTP(w, req)
						return
					}
					http.Redirect(w, req, list[1].URL()+req.URL.RequestURI(), http.StatusTemporaryRedirect)
				})
				list[1].Script(failsOnce(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if status != 200 {
						w.WriteHeader(status)
						return
					}
					next.ServeHTTP(w, req)
				}))
			})
			if err != nil {
				t.Errorf("%v, which is %v", err, source.Failure(err))
			}
		})
	}
}

// A mirror without ranges breaks a layer off, and once more before the rest begins. Then it gives all of
// it. The registry does not have the layer, or refuses it, or is down.
func TestMirrorWithoutRangesThatBreaksOffEarlier(t *testing.T) {
	for _, status := range []int{0, 200, 403, 404, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			list, hosts := registries(t, 2)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				var asked sync.Map // by path
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if !getsBlob(req) || isProbe(req) {
						next.ServeHTTP(w, req)
						return
					}
					req.Header.Del("Range")
					n, _ := asked.LoadOrStore(req.URL.Path, new(atomic.Int64))
					if try := int(n.(*atomic.Int64).Add(1)); try <= 2 {
						beginAndEnd(w, req, next, 400-100*try, closes)
						return
					}
					next.ServeHTTP(w, req)
				})
				list[1].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					switch {
					case status == 200 || !getsBlob(req):
						next.ServeHTTP(w, req)
					case status == 0:
						closes(req)
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
