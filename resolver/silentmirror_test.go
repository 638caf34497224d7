// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// fallsSilent has a registry send the first bytes of what is asked for, and then nothing. It
// returns how often that happened.
func fallsSilent(r *resolvertest.Registry, bytes int, on func(*http.Request) bool) *atomic.Int64 {
	var asked atomic.Int64
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || isProbe(req) || !on(req) {
			next.ServeHTTP(w, req)
			return
		}
		asked.Add(1)
		beginOnly(w, req, next, bytes)
	})
	return &asked
}

// beginOnly sends the first bytes of an answer, and then nothing.
func beginOnly(w http.ResponseWriter, req *http.Request, next http.Handler, bytes int) {
	whole := &buffer{}
	next.ServeHTTP(whole, req)
	maps.Copy(w.Header(), whole.Header())
	w.WriteHeader(whole.status())
	_, _ = w.Write(whole.Bytes()[:min(bytes, whole.Len())])
	_ = http.NewResponseController(w).Flush()
	<-req.Context().Done()
}

// getsBlob reports whether a request is for a layer or a config.
func getsBlob(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/")
}

// pieces has layers fetched in pieces side by side.
var pieces = transferlocal.TransferConfig{MaxConcurrentDownloads: 4, ConcurrentLayerFetchBuffer: 8 << 10}

// A pull asks the next host for the rest of what a mirror does not go on with, and the mirror
// for nothing more.
func TestMirrorThatFallsSilent(t *testing.T) {
	all := func(*http.Request) bool { return true }
	later := func(req *http.Request) bool {
		return getsBlob(req) && !strings.HasSuffix(req.Header.Get("Range"), "=0-")
	}
	for name, test := range map[string]struct {
		bytes  int
		on     func(*http.Request) bool
		atMost int64 // requests in which it falls silent
		config transferlocal.TransferConfig
		tls    bool
		ahead  bool
		shares bool // it is a source
	}{
		"in the manifest":                   {on: all, atMost: 1},
		"in the middle of the manifest":     {bytes: 100, on: all, atMost: 1, shares: true},
		"in blobs":                          {on: getsBlob, atMost: 4, shares: true},
		"in the middle of blobs":            {bytes: 100, on: getsBlob, atMost: 4, shares: true},
		"by HTTP/2":                         {bytes: 100, on: getsBlob, atMost: 4, shares: true, tls: true},
		"in what is sent ahead":             {bytes: 100, on: getsBlob, atMost: 4, shares: true, ahead: true},
		"in pieces":                         {bytes: 100, on: getsBlob, atMost: 4, shares: true, config: pieces},
		"in pieces, from the second one on": {bytes: 100, on: later, atMost: 16, shares: true, config: pieces},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, hosts := mirrored(t, test.tls)
			p := newPuller(t, test.config, Options{HostDirs: []string{hostsDir(t, hosts)}, ProgressTimeout: time.Second}, Query{})
			p.prefetch = test.ahead
			var asked *atomic.Int64
			source, err := p.pull(t, func() { asked = fallsSilent(list[0], test.bytes, test.on) })
			if err != nil {
				t.Fatal(err)
			}
			want := []string{list[1].Host()}
			if test.shares {
				want = []string{list[0].Host(), list[1].Host()}
			}
			if served := source.Served().Hosts; !slices.Equal(served, want) {
				t.Errorf("served by %v, want %v", served, want)
			}
			if n := asked.Load(); n == 0 || n > test.atMost {
				t.Errorf("it fell silent %d times, want at most %d", n, test.atMost)
			}
		})
	}
}

// A mirror that has fallen silent is asked again for what no other host has, and may be silent
// then for as long as the pull lasts.
func TestNothingBesideASilentMirror(t *testing.T) {
	t.Parallel()
	list, hosts := registries(t, 2)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}, ProgressTimeout: time.Second}, Query{})
	list[1].Status(resolvertest.Blobs, http.StatusNotFound)
	var asked atomic.Int64
	source, err := p.pull(t, func() {
		list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if !getsBlob(req) {
				next.ServeHTTP(w, req)
				return
			}
			_ = http.NewResponseController(w).Flush()
			wait := time.After(750 * time.Millisecond)
			if asked.Add(1) == 1 {
				wait = nil
			}
			select {
			case <-wait:
				next.ServeHTTP(w, req)
			case <-req.Context().Done():
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if served := source.Served().Hosts; !slices.Equal(served, []string{list[0].Host()}) {
		t.Errorf("served by %v", served)
	}
}

// A mirror that has fallen silent is not asked for what the registry gives at the second try:
// it may be silent then for as long as the pull lasts.
func TestSilentMirrorIsAskedLast(t *testing.T) {
	t.Parallel()
	list, hosts := registries(t, 2)
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}, ProgressTimeout: time.Second}, Query{})
	var asked atomic.Int64
	var failed sync.Map // of paths
	_, err := p.pull(t, func() {
		list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if getsBlob(req) && asked.Add(1) == 1 {
				beginOnly(w, req, next, 100)
				return
			}
			next.ServeHTTP(w, req)
		})
		list[1].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if _, again := failed.LoadOrStore(req.URL.Path, true); getsBlob(req) && !again {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked for blobs %d times, want 1", n)
	}
}

// A mirror without ranges that sends only bytes before those that it is asked for has delivered
// nothing.
func TestThrownAwayBytesMakeNoSource(t *testing.T) {
	t.Parallel()
	list, hosts := registries(t, 3)
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}, ProgressTimeout: 3 * time.Second}, Query{})
	var silent atomic.Int64
	source, err := p.pull(t, func() {
		fallsSilent(list[0], 400, getsBlob)
		list[1].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			switch {
			case !getsBlob(req):
				next.ServeHTTP(w, req)
			case req.Header.Get("Range") == "":
				w.WriteHeader(http.StatusNotFound)
			default:
				req.Header.Del("Range")
				silent.Add(1)
				beginOnly(w, req, next, 50)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if served := source.Served().Hosts; silent.Load() == 0 || !slices.Equal(served, []string{list[0].Host(), list[2].Host()}) {
		t.Errorf("served by %v, after the second was silent %d times", served, silent.Load())
	}
}
