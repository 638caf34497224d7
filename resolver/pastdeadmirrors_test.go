// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry is in trouble, and mirrors before it are dead: one that is known to be has a second, others have as long again as
// a lost packet takes, once.
func TestPullPastDeadMirrors(t *testing.T) {
	for name, tc := range map[string]struct {
		dead, dies int           // mirrors that are dead before the check, or after it
		busy       bool          // behind them is a mirror that is asked too often once
		well       time.Duration // when the registry is; 0 = never
		within     time.Duration
		fails      bool
	}{
		"one that is known, before one that is asked too often": {dead: 1, busy: true, within: 2 * hosts.SecondDial},
		"two that were well, a registry that recovers":          {dies: 2, well: 10 * time.Second, within: 3 * hosts.SecondDial},
		"two that were well, a registry that does not":          {dies: 2, within: 3 * hosts.SecondDial, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mirrors []*resolvertest.Registry
			var urls []string
			add := func() *resolvertest.Registry {
				r := resolvertest.New(t)
				if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 3, 1<<10)); err != nil {
					t.Fatal(err)
				}
				urls = append(urls, r.URL())
				return r
			}
			swallow := func() {
				for _, m := range mirrors {
					m.KillConnections()
					if err := m.Swallow(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range tc.dead + tc.dies {
				mirrors = append(mirrors, add())
			}
			if tc.busy {
				tooOften(add())
			}
			heal := add().Status(resolvertest.All, http.StatusServiceUnavailable, "Retry-After", "60")
			if tc.dead > 0 {
				swallow()
			}
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, chain(urls...))}}, Query{Order: OriginThenMirrors})
			got, err := p.session.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			swallow()
			if tc.well > 0 {
				time.AfterFunc(tc.well, heal)
			}
			began := time.Now()
			err = p.transfer(t.Context(), p.session.Source(got.Descriptor))
			if took := time.Since(began); took > tc.within || (err != nil) != tc.fails {
				t.Errorf("it took %v: %v", took, err)
			}
		})
	}
}

// tooOften has a registry answer so, once, who reads a manifest.
func tooOften(r *resolvertest.Registry) {
	var once atomic.Bool
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/manifests/") && once.CompareAndSwap(false, true) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, req)
	})
}
