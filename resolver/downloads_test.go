// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/core/transfer"
	"golang.org/x/sync/semaphore"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const mebi = 1 << 20

// bounds returns what containerd bounds a pull by.
func bounds(downloads int) []transfer.ImageResolverOption {
	all := []transfer.ImageResolverOption{transfer.WithMaxConcurrentDownloads(downloads)}
	if downloads > 0 {
		all = append(all, transfer.WithDownloadLimiter(semaphore.NewWeighted(int64(downloads))))
	}
	return all
}

// The bound is containerd's where there is none, and where layers are fetched in chunks.
func TestWhoBoundsDownloads(t *testing.T) {
	chunks := transfer.WithConcurrentLayerFetchBuffer(mebi)
	for _, test := range []struct {
		options []transfer.ImageResolverOption
		ours    bool
	}{{bounds(3), true}, {bounds(1), true}, {bounds(0), false}, {append(bounds(3), chunks), false}} {
		d, options := newDownloads(test.options)
		var left transfer.ImageResolverOptions
		for _, set := range options {
			set(&left)
		}
		if (d != nil) != test.ours || test.ours && left.DownloadLimiter != nil || !test.ours && len(options) != len(test.options) {
			t.Errorf("ours %t: %+v, %+v", test.ours, d, left)
		}
	}
}

// Downloads take places, and small layers room instead, once something has come by HTTP/2.
func TestDownloadsAreBounded(t *testing.T) {
	layers := func(n int, size int64) (all []*fetch) {
		for range n {
			all = append(all, &fetch{size: size})
		}
		return all
	}
	documents := layers(20, 100)
	for _, of := range documents {
		of.document = true
	}
	spare := layers(20, 100)
	for _, of := range spare {
		of.spare.Store(true)
	}
	for name, test := range map[string]struct {
		downloads int
		shared    bool
		all       []*fetch
		want      int
	}{
		"HTTP/1.1":                {3, false, layers(20, 100), 3},
		"small":                   {3, true, layers(20, mebi), 3 + 8},
		"tiny":                    {3, true, layers(30, 1), 3 + 16},
		"of the largest size":     {3, true, layers(20, maxSmall), 3 + 2},
		"large":                   {3, true, layers(20, maxSmall+1), 3},
		"documents":               {3, true, documents, 3},
		"one alone":               {1, true, layers(20, 100), 1},
		"large behind small ones": {3, true, append(layers(8, mebi), layers(5, 5*mebi)...), 8 + 3},
		"spare by HTTP/1.1":       {3, false, spare, 0},
		"spare":                   {3, true, spare, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := newDownloads(bounds(test.downloads))
			d.answered(&fetch{blob: true}, test.shared)
			if got := mostAtATime(t, d, test.all, test.want); got != test.want {
				t.Errorf("%s: %d at a time, want %d", name, got, test.want)
			}
			if d.places != test.downloads || d.small != 0 || len(d.queue) > 0 {
				t.Errorf("%s: left are %d places, %d bytes, %d waiters", name, d.places, d.small, len(d.queue))
			}
		})
	}
}

// mostAtATime lets all download, that many come to their end, and then all be canceled. It
// returns how many have downloaded at a time.
func mostAtATime(t *testing.T, d *downloads, fetches []*fetch, ends int) int {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	running, most, entered := 0, 0, 0
	var all sync.WaitGroup
	next := make(chan bool)
	for _, of := range fetches {
		all.Go(func() {
			leave, err := d.acquire(ctx, of)
			if err != nil {
				return
			}
			mu.Lock()
			entered++
			running++
			most = max(most, running)
			mu.Unlock()
			<-next
			mu.Lock()
			running--
			mu.Unlock()
			leave()
			leave()
		})
		synctest.Wait()
	}
	for range ends {
		next <- true
		synctest.Wait()
	}
	mu.Lock()
	if ends > 0 && entered < min(len(fetches), ends+1) {
		t.Errorf("%d have entered, and %d left", entered, ends)
	}
	mu.Unlock()
	cancel()
	close(next)
	all.Wait()
	return most
}

// What nobody has wanted waits for room alone, and for a place too once somebody does; what
// waits for a place gets room once HTTP/2 is seen.
func TestWantedDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newDownloads(bounds(2))
		enter := func(of *fetch) (in chan func()) {
			in = make(chan func(), 1)
			go func() {
				if leave, err := d.acquire(t.Context(), of); err == nil {
					in <- leave
				}
			}()
			synctest.Wait()
			return in
		}
		spare := &fetch{size: 100}
		spare.spare.Store(true)
		first := enter(spare)
		if len(first) > 0 {
			t.Fatal("a spare one has taken a place")
		}
		d.wanted(spare)
		synctest.Wait()
		if len(first) == 0 {
			t.Fatal("it has none although it is wanted")
		}
		large, small := enter(&fetch{size: 2 * maxSmall}), enter(&fetch{size: 100})
		if len(large) == 0 || len(small) > 0 {
			t.Fatalf("%d, %d have entered", len(large), len(small))
		}
		d.answered(&fetch{}, true) // a manifest
		synctest.Wait()
		if len(small) > 0 {
			t.Error("a small one needs no place although no layer has come by HTTP/2")
		}
		d.answered(&fetch{blob: true}, true)
		d.answered(&fetch{blob: true, size: maxSmall + 1}, false) // it has a connection of its own
		synctest.Wait()
		if len(small) == 0 {
			t.Fatal("the small one waits although it needs no place")
		}
		later := enter(&fetch{size: 100})
		if len(later) == 0 {
			t.Error("a small one waits since a large one has come by HTTP/1.1")
		}
		for _, in := range []chan func(){first, large, small, later} {
			(<-in)()
		}
		if d.places != 2 || d.small != 0 {
			t.Errorf("left are %d places, %d bytes", d.places, d.small)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.acquire(canceled, &fetch{document: true}); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// atATime counts the blobs that a registry is asked for, and how many at a time. It answers the
// first ones when all of them have come, and the others after stop.
func atATime(r *resolvertest.Registry, first int64) (asked, most *atomic.Int64, stop func()) {
	asked, most = &atomic.Int64{}, &atomic.Int64{}
	var mu sync.Mutex
	running := int64(0)
	count := func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		running += n
		most.Store(max(most.Load(), running))
	}
	begun, hold := make(chan struct{}), make(chan struct{})
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if strings.Contains(req.URL.Path, "/blobs/") {
			count(1)
			defer count(-1)
			switch n := asked.Add(1); { // the first answers say which protocol it is
			case n < first:
				<-begun
			case n == first:
				close(begun)
			default:
				<-hold
			}
		}
		next.ServeHTTP(w, req)
	})
	return asked, most, sync.OnceFunc(func() { close(hold) })
}

// With one download at a time no layer is prefetched, and none in chunks.
func TestPrefetchedLayersAreBounded(t *testing.T) {
	for _, test := range []struct{ downloads, chunk, want int }{{0, 0, 3}, {1, 0, 0}, {4, 0, 3}, {4, 1 << 20, 0}} {
		p := &prefetcher{Prefetch: Prefetch{Layers: true}}
		p.limit([]transfer.ImageResolverOption{
			transfer.WithMaxConcurrentDownloads(test.downloads), transfer.WithConcurrentLayerFetchBuffer(test.chunk),
		})
		if got := int(p.layers.Load()); got != test.want || (p.small.Load() > 0) != (got > 0) {
			t.Errorf("%+v: %d layers, and %d bytes of small ones", test, got, p.small.Load())
		}
	}
}

// By HTTP/2 small layers are asked for before containerd does, as many as there is room for,
// and by HTTP/1.1 no more than there are downloads at a time.
func TestSmallLayersArePrefetched(t *testing.T) {
	for name, test := range map[string]struct {
		options []resolvertest.Option
		ahead   int64
	}{
		"HTTP/2":   {nil, 1 + 2 + 16},
		"HTTP/1.1": {[]resolvertest.Option{resolvertest.WithoutHTTP2()}, 1 + 2},
	} {
		r := resolvertest.New(t, append(test.options, resolvertest.WithTLS())...)
		if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 25, 1<<10)); err != nil {
			t.Fatal(err)
		}
		ca, err := r.CAFile(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		asked, most, release := atATime(r, 3)
		t.Cleanup(release)
		a := aheadOf(t, r, fmt.Sprintf("server = %q\nca = %q\n", r.URL(), ca), 3, nil, nil)
		waitFor(t, func() bool { return asked.Load() == test.ahead })
		release()
		waitFor(t, func() bool { waiting, _ := a.source.Progress(); return waiting == 0 }) // also by those that may not begin
		var all sync.WaitGroup
		for i, desc := range append(a.manifest.Layers, a.manifest.Config) {
			all.Go(func() {
				if got, err := a.fetch(t, desc); err != nil || got != desc.Digest {
					t.Errorf("%s: layer %d: %s, %v", name, i, got, err)
				}
			})
		}
		all.Wait()
		if got := asked.Load(); got != 26 {
			t.Errorf("%s: %d requests for 26 blobs", name, got)
		}
		if name == "HTTP/1.1" && most.Load() > 3 {
			t.Errorf("%s: %d blobs at a time", name, most.Load())
		}
	}
}
