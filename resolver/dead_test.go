// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A cold pull past a dead mirror pays once, however many layers there are and
// whether or not the check has asked the mirror: nothing is asked there twice.
func TestColdPullPastADeadMirror(t *testing.T) {
	t.Parallel()
	swallow := func(r *resolvertest.Registry) error { return r.Swallow() }
	for name, test := range map[string]struct {
		trouble  func(*resolvertest.Registry) error
		pullOnly bool // the mirror does not resolve tags
	}{
		"it swallows packets":                     {swallow, false},
		"it swallows packets, and only has blobs": {swallow, true},
		"it never answers":                        {func(r *resolvertest.Registry) error { r.Hang(resolvertest.All); return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const layers = 7
			list := []*resolvertest.Registry{resolvertest.New(t), resolvertest.New(t)}
			for _, r := range list {
				if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, layers, 1<<10)); err != nil {
					t.Fatal(err)
				}
				r.Forget()
			}
			hosts := chain(list[0].URL(), list[1].URL())
			if test.pullOnly {
				hosts += "capabilities = [\"pull\"]\n"
			}
			if err := test.trouble(list[0]); err != nil {
				t.Fatal(err)
			}
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			var asked atomic.Int64 // also by requests that never come to the mirror
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(address string) {
				if address == list[0].Host() {
					asked.Add(1)
				}
			}})
			got, err := p.session.Resolve(ctx, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if test.pullOnly != (len(got.Attempts) == 0) {
				t.Errorf("got attempts %v", got.Attempts)
			}
			source := p.session.Source(got.Descriptor)
			if err := p.transfer(ctx, source); err != nil {
				t.Fatal(err)
			}
			if served := source.Served(); !slices.Equal(served.Hosts, []string{list[1].Host()}) {
				t.Errorf("got %+v", served)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the mirror was asked %d times", n)
			}
		})
	}
}

// The last host is asked although it is in trouble, and so is a mirror that was
// passed over when the others have nothing.
func TestFetchWhenNothingElseIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		inTrouble []int // of the hosts
		without   []int // the image
		served    int
		asked     []int // how often each host
	}{
		"all are well":                  {nil, nil, 0, []int{1, 0}},
		"the mirror is in trouble":      {[]int{0}, nil, 1, []int{0, 1}},
		"both are in trouble":           {[]int{0, 1}, nil, 0, []int{1, 0}},
		"only the mirror has the image": {[]int{0}, []int{1}, 0, []int{1, 1}},
		"the origin alone has it":       {[]int{1}, []int{0}, 1, []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 2)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, hosts)}})
			s := openAt(t, r, Query{})
			got, err := s.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range test.without {
				list[i].Status(resolvertest.All, http.StatusNotFound)
			}
			for _, i := range test.inTrouble {
				trouble(t, r, health.Key{Host: list[i].URL()}, unavailable)
			}
			for _, l := range list {
				l.Forget()
			}
			source := s.Source(got.Descriptor)
			fetcher, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			rc, err := fetcher.Fetch(t.Context(), got.Descriptor)
			if err != nil {
				t.Fatal(err)
			}
			defer rc.Close()
			if _, err := rc.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if served := source.Served(); served.Reference != list[test.served].Host()+"/team/app:v1" {
				t.Errorf("got %+v", served)
			}
			for i, want := range test.asked {
				if n := list[i].Count(resolvertest.NoProbe); n != want {
					t.Errorf("host %d was asked %d times, want %d", i, n, want)
				}
			}
		})
	}
}

var _ remotes.Fetcher = (*fetcher)(nil)

// A host with another behind it is dialled for a second, unless hosts.toml says
// otherwise, and not for its share of the check.
func TestDialTimeouts(t *testing.T) {
	const share = time.Minute // more than a busy machine needs for the rest
	for name, test := range map[string]struct {
		mirror string // of its table in hosts.toml
		behind bool
		least  time.Duration
	}{
		"another is behind it": {"", true, hosts.ShortDial},
		"hosts.toml is longer": {"dial_timeout = \"1500ms\"\n", true, 1500 * time.Millisecond},
		"with a header":        {"[host.%[1]q.header]\nx-a = \"1\"\n", true, hosts.ShortDial},
		"with TLS settings":    {"skip_verify = true\n", true, hosts.ShortDial},
		"it is alone":          {"", false, 2 * hosts.ShortDial}, // the check's budget
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, _ := registries(t, 1)
			if err := list[0].Swallow(); err != nil {
				t.Fatal(err)
			}
			origin, _ := serve(t, serveManifest)
			url := strings.Replace(list[0].URL(), "http:", "https:", 1)
			settings := test.mirror
			if strings.Contains(settings, "%") {
				settings = fmt.Sprintf(settings, url)
			}
			hostsTOML := fmt.Sprintf("server = %q\n[host.%q]\n%s", origin.URL, url, settings)
			timeout := 2 * share
			if !test.behind {
				hostsTOML, timeout = chain(url), 2*hosts.ShortDial
			}
			s := open(t, Options{HostDirs: []string{hostsDir(t, hostsTOML)}}, Query{})
			start := time.Now()
			got, err := s.Resolve(t.Context(), timeout)
			if (err == nil) != test.behind || test.behind && got.Host != serverHost(origin) {
				t.Errorf("got %+v, %v", got, err)
			}
			if elapsed := time.Since(start); elapsed < test.least || elapsed > share/3 {
				t.Errorf("it took %v, want %v", elapsed, test.least)
			}
			if !slices.ContainsFunc(s.(*session).hosts, func(h *host) bool { return h.health.Blocked(h.Key(), 0) }) {
				t.Error("no host is left alone")
			}
		})
	}
}

// A dial_timeout of hosts.toml that is shorter than a second counts, too: with one that no
// dial can keep, a host that is well is not reached.
func TestShorterDialTimeout(t *testing.T) {
	for timeout, served := range map[string]int{"1ns": 1, "1m": 0} {
		list, hosts := registries(t, 2)
		s := open(t, Options{HostDirs: []string{hostsDir(t, hosts+fmt.Sprintf("dial_timeout = %q\n", timeout))}}, Query{})
		got, err := s.Resolve(t.Context(), plenty)
		if err != nil || got.Host != list[served].Host() {
			t.Errorf("dial_timeout %s: got %+v, %v", timeout, got, err)
		}
	}
}

// A host that falls back from HTTPS to HTTP does so once: its connection stays.
func TestFallbackFromHTTPS(t *testing.T) {
	plain := resolvertest.New(t)
	if _, err := plain.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 1, 10)); err != nil {
		t.Fatal(err)
	}
	r := newResolver(t, Options{})
	query := Query{Reference: plain.Host() + "/team/app:v1"}
	checkOnce(t, r, query)
	before := plain.Connections()
	checkOnce(t, r, query)
	if n := plain.Connections() - before; n != 0 {
		t.Errorf("%d new connections", n)
	}
	plain.Status(resolvertest.All, http.StatusBadRequest)
	if _, err := openAt(t, r, query).Resolve(t.Context(), plenty); err == nil {
		t.Error("status 400 is an answer")
	}
}
