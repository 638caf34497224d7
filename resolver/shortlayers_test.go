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

// The rest of layers that a host has ended too early takes a place among the downloads of the
// pull as well.
func TestRestOfShortLayersIsBounded(t *testing.T) {
	const downloads, layers = 3, 12
	list, hosts := registries(t, 1)
	if _, err := list[0].Push(t.Context(), "team/app:v1", resolvertest.Image(1, layers, 1<<10)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	running, most, tooMany := 0, 0, make(chan struct{})
	tell := sync.OnceFunc(func() { close(tooMany) })
	enter := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		running += n
		if most = max(most, running); most > downloads {
			tell()
		}
	}
	a := aheadOf(t, list[0], hosts, downloads, nil, func(r *resolvertest.Registry) {
		r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			switch {
			case !strings.Contains(req.URL.Path, "/blobs/"):
				next.ServeHTTP(w, req)
			case req.Header.Get("Range") == "": // one byte, and a regular end
				answer := &buffer{}
				next.ServeHTTP(answer, req)
				_, _ = w.Write(answer.Bytes()[:1])
				_ = http.NewResponseController(w).Flush()
			default:
				enter(1)
				defer enter(-1)
				select {
				case <-tooMany:
				case <-time.After(300 * time.Millisecond): // others had time to come
				}
				next.ServeHTTP(w, req)
			}
		})
	})
	var all sync.WaitGroup
	for _, desc := range a.manifest.Layers {
		all.Go(func() {
			if got, err := a.fetch(t, desc); err != nil || got != desc.Digest {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	all.Wait()
	if most > downloads || most == 0 {
		t.Errorf("%d downloads at a time, want at most %d", most, downloads)
	}
}

// Where every host ends layers before their end, each is asked a few times, and they are invalid.
func TestNothingButShortLayers(t *testing.T) {
	for hosts := 1; hosts <= 4; hosts++ {
		for name, config := range map[string]transferlocal.TransferConfig{"whole": {MaxConcurrentDownloads: 1}, "pieces": pieces} {
			t.Run(fmt.Sprint(hosts, " ", name), func(t *testing.T) {
				t.Parallel()
				list, toml := registries(t, hosts)
				p := newPuller(t, config, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{})
				var asked []*atomic.Int64
				source, err := p.pull(t, func() {
					for _, r := range list {
						asked = append(asked, breaksOff(r, 2000, true, nil, getsBlob))
					}
				})
				if e := source.Failure(err); e == nil || e.Class != failure.Invalid {
					t.Errorf("got %v, %v", e, err)
				}
				for i, n := range asked {
					if n := n.Load(); n == 0 || n > 16 {
						t.Errorf("host %d was asked %d times", i, n)
					}
				}
			})
		}
	}
}
