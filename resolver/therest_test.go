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

	"github.com/pullwarden/pullwarden/resolver/health"
)

// However many mirrors break off, and wherever, the registry gives the rest.
func TestMirrorsThatBreakOff(t *testing.T) {
	for _, mirrors := range []int{2, 3, 5} {
		for _, at := range []int{0, 100} {
			for name, config := range map[string]transferlocal.TransferConfig{"whole": {}, "ahead": {}, "pieces": pieces} {
				t.Run(fmt.Sprintf("%d at %d, %s", mirrors, at, name), func(t *testing.T) {
					t.Parallel()
					list, hosts := registries(t, mirrors+1)
					p := newPuller(t, config, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
					p.prefetch = name == "ahead"
					var asked []*atomic.Int64
					source, err := p.pull(t, func() {
						for _, mirror := range list[:mirrors] {
							asked = append(asked, breaksOff(mirror, at, true, closes, getsBlob))
						}
					})
					if err != nil {
						t.Fatal(err)
					}
					if served := source.Served().Hosts; !slices.Contains(served, list[mirrors].Host()) {
						t.Errorf("served by %v", served)
					}
					for i, n := range asked {
						if n := n.Load(); n == 0 || n > 30 {
							t.Errorf("mirror %d broke off %d times", i, n)
						}
					}
				})
			}
		}
	}
}

// The last host is asked three times for the rest, also of what mirrors have broken off before.
func TestRegistryThatBreaksOffForAWhile(t *testing.T) {
	for _, mirrors := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(mirrors), func(t *testing.T) {
			t.Parallel()
			list, hosts := registries(t, mirrors+1)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			_, err := p.pull(t, func() {
				for _, mirror := range list[:mirrors] {
					breaksOff(mirror, 100, true, closes, getsBlob)
				}
				var asked sync.Map // by path
				breaksOff(list[mirrors], 100, true, closes, func(req *http.Request) bool {
					n, _ := asked.LoadOrStore(req.URL.Path, new(atomic.Int64))
					return getsBlob(req) && n.(*atomic.Int64).Add(1) <= 3
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// What the last host breaks off is asked for at mirrors that were left for other content: each, as
// long as there is one.
func TestLeftMirrorsHaveTheRest(t *testing.T) {
	manifest := func(req *http.Request) bool { return !getsBlob(req) }
	all := func(*http.Request) bool { return true }
	for name, test := range map[string]struct {
		on     []func(*http.Request) bool // at each host, what it breaks off
		serves int
	}{
		"one":     {[]func(*http.Request) bool{manifest, getsBlob}, 0},
		"the 2nd": {[]func(*http.Request) bool{all, manifest, getsBlob}, 1},
		"the 3rd": {[]func(*http.Request) bool{all, all, manifest, getsBlob}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, hosts := registries(t, len(test.on))
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				for i, on := range test.on {
					breaksOff(list[i], 100, true, closes, on)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if served := source.Served().Hosts; !slices.Contains(served, list[test.serves].Host()) {
				t.Errorf("served by %v", served)
			}
		})
	}
}

// What the last host breaks off is asked for at a mirror in trouble, too.
func TestMirrorInTroubleHasTheRest(t *testing.T) {
	list, hosts := registries(t, 3)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, hosts)}})
	p := newPuller(t, transferlocal.TransferConfig{}, Options{}, Query{})
	p.session = openAt(t, r, Query{})
	source, err := p.pull(t, func() {
		trouble(t, r, health.Key{Host: list[1].URL()}, unavailable)
		for _, i := range []int{0, 2} {
			breaksOff(list[i], 100, true, closes, getsBlob)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if served := source.Served().Hosts; !slices.Contains(served, list[1].Host()) {
		t.Errorf("served by %v", served)
	}
}

// Any number of mirrors may end layers before their end: the registry gives the rest.
func TestMirrorsThatEndShort(t *testing.T) {
	for _, mirrors := range []int{1, 2, 4} {
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprint(mirrors, ahead), func(t *testing.T) {
				t.Parallel()
				list, hosts := registries(t, mirrors+1)
				p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
				p.prefetch = ahead
				source, err := p.pull(t, func() {
					for i, mirror := range list[:mirrors] {
						breaksOff(mirror, 2000*(i+1), true, nil, getsBlob) // the config is shorter
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if served := source.Served().Hosts; !slices.Contains(served, list[mirrors].Host()) {
					t.Errorf("served by %v", served)
				}
			})
		}
	}
}

// The last host is asked three times for the rest of what it breaks off, also where it knows no ranges,
// and breaks off before the rest begins.
func TestRegistryWithoutRangesThatBreaksOffEarlier(t *testing.T) {
	for _, tries := range []int{1, 2} {
		t.Run(fmt.Sprint(tries), func(t *testing.T) {
			t.Parallel()
			list, hosts := registries(t, 1)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				var asked sync.Map // by path
				list[0].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					req.Header.Del("Range")
					n, _ := asked.LoadOrStore(req.URL.Path, new(atomic.Int64))
					try := int(n.(*atomic.Int64).Add(1))
					if !getsBlob(req) || try > 1+tries {
						next.ServeHTTP(w, req)
						return
					}
					beginAndEnd(w, req, next, 400-100*try, closes)
				})
			})
			if err != nil {
				t.Errorf("%v, which is %v", err, source.Failure(err))
			}
		})
	}
}
