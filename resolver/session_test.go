// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	head = "HEAD /v2/team/app/manifests/v1"
	get  = "GET /v2/team/app/manifests/v1"
)

func TestResolveAsksOnce(t *testing.T) {
	server, log := serve(t, serveManifest)
	got, err := resolve(t, Query{}, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := manifestDesc
	if got.Descriptor.Digest != want.Digest || got.Descriptor.Size != want.Size || got.Descriptor.MediaType != want.MediaType {
		t.Errorf("got %+v, want %+v", got.Descriptor, want)
	}
	if got.Host != serverHost(server) || len(got.Attempts) != 0 || got.Elapsed <= 0 {
		t.Errorf("got %+v", got)
	}
	wantRequests(t, log, head)
}

func TestResolveByDigest(t *testing.T) {
	server, log := serve(t, serveManifest)
	ref := registryName + "/team/app@" + manifestDigest.String()
	got, err := resolve(t, Query{Reference: ref}, server.URL)
	if err != nil || got.Descriptor.Digest != manifestDigest {
		t.Fatalf("got %+v, %v", got, err)
	}
	wantRequests(t, log, "HEAD /v2/team/app/manifests/"+manifestDigest.String())

	t.Run("not found", func(t *testing.T) {
		server, log := serve(t, http.NotFound)
		_, err := resolve(t, Query{Reference: ref}, server.URL)
		wantClass(t, err, failure.NotFound)
		wantRequests(t, log, "HEAD /v2/team/app/manifests/"+manifestDigest.String())
	})
	t.Run("another manifest", func(t *testing.T) {
		server, _ := serve(t, headThen("X", "y", serveManifest))
		_, err := resolve(t, Query{Reference: registryName + "/team/app@" + otherDigest.String()}, server.URL)
		wantClass(t, err, failure.Invalid)
	})
	t.Run("mirror without capability to resolve", func(t *testing.T) {
		mirror, log := serve(t, serveManifest)
		dir := hostsDir(t, "server = \"http://127.0.0.1:1\"\n[host.\""+mirror.URL+"\"]\ncapabilities = [\"pull\"]\n")
		s := open(t, Options{HostDirs: []string{dir}}, Query{Reference: ref})
		if _, err := s.Resolve(t.Context(), plenty); err != nil {
			t.Error(err)
		}
		if len(log.list()) != 1 {
			t.Errorf("got requests %v", log.list())
		}
	})
}

func TestResolveSeveralHosts(t *testing.T) {
	type hosts = []http.HandlerFunc
	for name, test := range map[string]struct {
		hosts    hosts
		origin   bool          // OriginOnly
		answer   int           // index of the host that answers, -1 none
		class    failure.Class // when none does
		attempts int
	}{
		"mirror answers":                 {hosts: hosts{serveManifest, answerStatus(404)}, answer: 0},
		"mirror's 404 proves nothing":    {hosts: hosts{answerStatus(404), serveManifest}, answer: 1, attempts: 1},
		"mirror's 401 proves nothing":    {hosts: hosts{answerStatus(401), serveManifest}, answer: 1, attempts: 1},
		"mirror's page proves nothing":   {hosts: hosts{page, serveManifest}, answer: 1, attempts: 1},
		"the origin's class counts":      {hosts: hosts{answerStatus(404), answerStatus(403)}, answer: -1, class: failure.Forbidden, attempts: 2},
		"404 of the origin counts":       {hosts: hosts{answerStatus(403), answerStatus(404)}, answer: -1, class: failure.NotFound, attempts: 2},
		"only the origin is asked":       {hosts: hosts{serveManifest, serveManifest}, origin: true, answer: 1},
		"only the origin is asked, fail": {hosts: hosts{serveManifest, answerStatus(404)}, origin: true, answer: -1, class: failure.NotFound, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var urls []string
			for _, h := range test.hosts {
				server, _ := serve(t, h)
				urls = append(urls, server.URL)
			}
			query := Query{}
			if test.origin {
				query.Order = OriginOnly
			}
			got, err := resolve(t, query, urls...)
			attempts := got.Attempts
			if test.answer < 0 {
				attempts = wantClass(t, err, test.class).Attempts
			} else if err != nil {
				t.Fatal(err)
			} else if "http://"+got.Host != urls[test.answer] {
				t.Errorf("host %s answered, want %s", got.Host, urls[test.answer])
			}
			if len(attempts) != test.attempts {
				t.Errorf("got %d failed attempts, want %d: %v", len(attempts), test.attempts, attempts)
			}
			for i, a := range attempts {
				if origin := test.origin || i == len(urls)-1; a.Origin != origin {
					t.Errorf("attempt %d: origin is %v", i, a.Origin)
				}
			}
		})
	}
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<html>please log in</html>"))
}

func TestResolveMirrorIsNotTriedAgain(t *testing.T) {
	for _, handler := range []http.HandlerFunc{answerStatus(503), answerStatus(429), hangUp} {
		mirror, log := serve(t, handler)
		origin, _ := serve(t, serveManifest)
		if _, err := resolve(t, Query{}, mirror.URL, origin.URL); err != nil {
			t.Error(err)
		}
		wantRequests(t, log, head)
	}
}

// hangUp closes the connection instead of answering.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func TestResolveCapabilities(t *testing.T) {
	server, log := serve(t, serveManifest)
	for name, hosts := range map[string]string{
		"resolve missing": "server = \"" + server.URL + "\"\ncapabilities = [\"pull\"]\n",
		"pull missing":    "server = \"" + server.URL + "\"\ncapabilities = [\"resolve\", \"push\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			_, err := s.Resolve(t.Context(), plenty)
			if e := wantClass(t, err, failure.Invalid); len(e.Attempts) != 1 {
				t.Errorf("got %v", e)
			}
			wantRequests(t, log)
		})
	}
}

// A host that does not answer leaves time for those after it.
func TestResolveSharesTheBudget(t *testing.T) {
	const budget = 9 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool // probes look at it, too
		s := open(t, fakeOptions(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == registryName && !down.Load() {
				return manifestAnswer(req), nil
			}
			<-req.Context().Done()
			return nil, req.Context().Err()
		}, "first.test", "second.test", registryName), Query{})

		got, err := s.Resolve(t.Context(), budget)
		if err != nil {
			t.Fatal(err)
		}
		if got.Host != registryName || got.Elapsed != budget*2/3 || len(got.Attempts) != 2 {
			t.Errorf("got %+v", got)
		}
		for _, a := range got.Attempts {
			if a.Class != failure.Unreachable || a.Elapsed != budget/3 {
				t.Errorf("got %+v", a)
			}
		}

		down.Store(true)
		start := time.Now()
		_, err = s.Resolve(t.Context(), budget)
		wantClass(t, err, failure.Unreachable)
		if elapsed := time.Since(start); elapsed != budget {
			t.Errorf("took %s, want %s", elapsed, budget)
		}
	})
}

func TestResolveReturnsTheCallersError(t *testing.T) {
	arrived := make(chan struct{}, 1)
	server, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := s.Resolve(ctx, plenty); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Resolve(ctx, plenty); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
}
