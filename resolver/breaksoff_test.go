// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// ending ends an answer in the middle; nil = as if that were all.
type ending func(*http.Request)

// closes has the connection closed, or the stream of HTTP/2 reset.
func closes(*http.Request) { panic(http.ErrAbortHandler) }

// breaksOff has a registry break content off at the same byte, however often it is asked, as one
// that has lost the rest. It returns how often that happened.
func breaksOff(r *resolvertest.Registry, at int, ranges bool, end ending, on func(*http.Request) bool) *atomic.Int64 {
	var asked atomic.Int64
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || isProbe(req) || !on(req) {
			next.ServeHTTP(w, req)
			return
		}
		asked.Add(1)
		from := 0
		if ranges {
			_, _ = fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-", &from)
		}
		req.Header.Del("Range")
		whole := &buffer{}
		next.ServeHTTP(whole, req)
		w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
		if end != nil {
			w.Header().Set("Content-Length", fmt.Sprint(whole.Len()-from))
		}
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, whole.Len()-1, whole.Len()))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(whole.Bytes()[from:max(from, min(at, whole.Len()))])
		_ = http.NewResponseController(w).Flush()
		if end != nil {
			end(req)
		}
	})
	return &asked
}

// A pull asks the next host for the rest of what a mirror breaks off again and again.
func TestMirrorThatBreaksOff(t *testing.T) {
	all := func(*http.Request) bool { return true }
	for name, test := range map[string]struct {
		at       int
		on       func(*http.Request) bool
		end      ending
		noRanges bool
		config   transferlocal.TransferConfig
		tls      bool
		ahead    bool
	}{
		"the manifest":        {at: 100, on: all, end: closes},
		"the manifest, reset": {at: 100, on: all, end: resolvertest.ResetOf},
		"at the begin":        {on: getsBlob, end: closes},
		"blobs":               {at: 100, on: getsBlob, end: closes},
		"blobs, reset":        {at: 100, on: getsBlob, end: resolvertest.ResetOf},
		"without ranges":      {at: 100, on: getsBlob, end: resolvertest.ResetOf, noRanges: true},
		"by HTTP/2":           {at: 100, on: getsBlob, end: closes, tls: true},
		"what is sent ahead":  {at: 100, on: getsBlob, end: resolvertest.ResetOf, ahead: true},
		"pieces":              {at: 100, on: getsBlob, end: closes, config: pieces},
		"pieces, reset":       {at: 100, on: getsBlob, end: resolvertest.ResetOf, config: pieces},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, hosts := mirrored(t, test.tls)
			p := newPuller(t, test.config, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			p.prefetch = test.ahead
			var asked *atomic.Int64
			source, err := p.pull(t, func() { asked = breaksOff(list[0], test.at, !test.noRanges, test.end, test.on) })
			if err != nil {
				t.Fatal(err)
			}
			if served := source.Served().Hosts; !slices.Contains(served, list[1].Host()) {
				t.Errorf("served by %v", served)
			}
			if n := asked.Load(); n == 0 || n > 30 {
				t.Errorf("it broke off %d times", n)
			}
		})
	}
}

// A host that breaks off once gives the rest itself.
func TestMirrorThatBreaksOffOnce(t *testing.T) {
	for name, end := range map[string]ending{"closed": closes, "reset": resolvertest.ResetOf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, hosts := registries(t, 2)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				var asked sync.Map // by path
				breaksOff(list[0], 100, true, end, func(req *http.Request) bool {
					_, again := asked.LoadOrStore(req.URL.Path, true)
					return getsBlob(req) && !again
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if served := source.Served().Hosts; !slices.Equal(served, []string{list[0].Host()}) {
				t.Errorf("served by %v", served)
			}
		})
	}
}

// Where no other host has it, a host that breaks off is asked some times, and is unreachable then.
func TestNothingBesideAHostThatBreaksOff(t *testing.T) {
	for name, end := range map[string]ending{"closed": closes, "reset": resolvertest.ResetOf} {
		for _, hosts := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " ", hosts), func(t *testing.T) {
				t.Parallel()
				list, toml := registries(t, hosts)
				p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{})
				var asked []*atomic.Int64
				source, err := p.pull(t, func() {
					for _, r := range list {
						asked = append(asked, breaksOff(r, 100, true, end, getsBlob))
					}
				})
				if e := source.Failure(err); e == nil || e.Class != failure.Unreachable {
					t.Errorf("got %v, %v", e, err)
				}
				for i, n := range asked {
					if n := n.Load(); n < 2 || n > 32 {
						t.Errorf("host %d was asked %d times", i, n)
					}
				}
			})
		}
	}
}

// A mirror whose content breaks HTTP is left for the next host. Where there is none, it is invalid.
func TestChunksThatAreNone(t *testing.T) {
	for hosts, class := range map[int]failure.Class{1: failure.Invalid, 2: failure.None} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			t.Parallel()
			list, toml := registries(t, hosts)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{})
			source, err := p.pull(t, func() {
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if !getsBlob(req) {
						next.ServeHTTP(w, req)
						return
					}
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n"))
					_ = conn.Close()
				})
			})
			if e := source.Failure(err); (e == nil) != (class == failure.None) || e != nil && e.Class != class {
				t.Errorf("got %v, %v", e, err)
			}
		})
	}
}
