// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// halfway serves the first part of blobs that are asked for first, of layers or of configs, and
// then does rest with what is left.
func halfway(r *resolvertest.Registry, layers bool, first int, rest func(w http.ResponseWriter, left []byte)) (asked *atomic.Int64) {
	asked = &atomic.Int64{}
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		blob := &buffer{}
		if !strings.Contains(req.URL.Path, "/blobs/") || req.Header.Get("Range") != "" {
			next.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(blob, req)
		if layers == (blob.Bytes()[0] == '{') || asked.Add(1) > 1 {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(blob.Len()))
		_, _ = w.Write(blob.Bytes()[:first])
		_ = http.NewResponseController(w).Flush()
		rest(w, blob.Bytes()[first:])
	})
	return asked
}

// Hosts end connections from which nobody reads: a layer that was prefetched, and breaks off
// before it is read, is asked for once more where its rest does not come.
func TestPrefetchedLayerBreaksOff(t *testing.T) {
	begun := make(chan struct{})
	a := newAhead(t, 2, func(r *resolvertest.Registry) {
		var rest atomic.Int64
		r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if req.Header.Get("Range") != "" && rest.Add(1) == 1 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			next.ServeHTTP(w, req)
		})
		halfway(r, true, firstRead+1, func(http.ResponseWriter, []byte) {
			<-begun
			panic(http.ErrAbortHandler)
		})
	})
	layer := a.manifest.Layers[0]
	e := a.source.(*source).ahead.all[layer.Digest]
	<-e.done
	if e.err != nil {
		t.Fatal(e.err)
	}
	close(begun)
	if got, err := a.fetch(t, layer); err != nil || got != layer.Digest {
		t.Errorf("got %s, %v", got, err)
	}
	if n := a.asked(layer.Digest); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// A prefetch is no progress of the pull until containerd takes it, and nothing for which that
// waits: one that trickles keeps no pull alive, and one that hangs ends none.
func TestProgressOfPrefetches(t *testing.T) {
	const first = 10
	more := make(chan struct{})
	a := newAhead(t, 1, func(r *resolvertest.Registry) {
		halfway(r, false, first, func(w http.ResponseWriter, left []byte) {
			<-more
			_, _ = w.Write(left)
		})
	})
	config := a.manifest.Config
	_, before := a.source.Progress()
	e := a.source.(*source).ahead.all[config.Digest]
	waitFor(t, func() bool { return e.log.progress.bytes.Load() == first && e.log.progress.waiting.Load() == 1 })
	if waiting, bytes := a.source.Progress(); waiting != 0 || bytes != before {
		t.Errorf("nobody has taken it: %d wait, %d bytes have come, want 0 and %d", waiting, bytes, before)
	}
	rc, err := a.fetcher.Fetch(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	if waiting, bytes := a.source.Progress(); waiting != 1 || bytes != before+first {
		t.Errorf("it is taken: %d wait, %d bytes have come, want 1 and %d", waiting, bytes, before+first)
	}
	close(more)
	if _, err := io.Copy(io.Discard, rc); err != nil {
		t.Fatal(err)
	}
	if waiting, bytes := a.source.Progress(); waiting != 0 || bytes != before+config.Size {
		t.Errorf("it has come: %d wait, %d bytes have come, want 0 and %d", waiting, bytes, before+config.Size)
	}
}
