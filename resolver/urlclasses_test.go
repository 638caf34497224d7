// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// A layer has a url whose host gives no answer, or a part of one: the failure has its class, and names
// that host. The registry has not failed, also where the url leads to it.
func TestClassesOfURLs(t *testing.T) {
	GuardURLs()
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for what, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		begin  func(*httptest.Server)
		want   failure.Class
	}{
		"refused":   {abort, (*httptest.Server).Close, failure.Unreachable},
		"reset":     {abort, (*httptest.Server).Start, failure.Unreachable},
		"untrusted": {abort, (*httptest.Server).StartTLS, failure.Invalid},
		"in the middle": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "x")
			panic(http.ErrAbortHandler)
		}, (*httptest.Server).Start, failure.Unreachable},
		"encoded": {func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "zstd") }, (*httptest.Server).Start, failure.Invalid},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
			address := "http://" + server.Listener.Addr().String()
			c.begin(server)
			t.Cleanup(server.Close)
			if server.TLS != nil {
				address = server.URL
			}
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(address))}}, Query{})
			source := s.Source(ocispec.Descriptor{})
			_, err := read(t, source, ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5, URLs: []string{address + "/layer"},
			})
			e := wantClass(t, source.Failure(err), c.want)
			if len(e.Attempts) != 1 || e.Attempts[0].Origin || e.Attempts[0].Refused || !strings.HasSuffix(address, "://"+e.Attempts[0].Host) {
				t.Errorf("attempts %+v", e.Attempts)
			}
		})
	}
}

// A url whose host has answered since has not failed, whatever that has said.
func TestURLsThatAnswerAgain(t *testing.T) {
	GuardURLs()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	for _, step := range []struct {
		address string
		want    failure.Class
	}{{gone.URL, failure.Unreachable}, {elsewhere.URL, failure.Invalid}} {
		_, err := read(t, source, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5, URLs: []string{step.address + "/layer"},
		})
		wantClass(t, source.Failure(err), step.want)
	}
}

// Time-outs are failures of a url's host, and the end of a pull is none, though one is an error as the
// other is.
func TestURLsInTime(t *testing.T) {
	over := make(chan struct{})
	silent, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	proxy, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for what, c := range map[string]struct {
		address string
		change  func(*http.Transport)
		ended   bool
		want    []failure.Class
	}{
		"silent": {silent.URL, func(t *http.Transport) { t.ResponseHeaderTimeout = time.Millisecond }, false, []failure.Class{failure.Unreachable}},
		"a proxy refuses": {"https://elsewhere.test", func(t *http.Transport) {
			t.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
		}, false, []failure.Class{failure.Unreachable}},
		"the pull ends": {silent.URL, func(*http.Transport) {}, true, nil},
	} {
		t.Run(what, func(t *testing.T) {
			rt := guardURLs(nil)
			c.change(rt.own)
			defer rt.CloseIdleConnections()
			of := &fetch{log: &fetchLog{redactor: &redact.Redactor{}, progress: &progress{}}, digest: manifestDigest}
			ctx, cancel := context.WithTimeout(withFetch(t.Context(), of), time.Minute)
			defer cancel()
			of.ctx = ctx
			if c.ended {
				cancel()
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+"/layer", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rt.RoundTrip(req) //nolint:bodyclose // it fails
			if err == nil || fault.Interrupted(err) != c.ended || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			failures := of.log.failures(of.digest)
			if len(failures) != len(c.want) || len(failures) > 0 && failures[0].Class != c.want[0] {
				t.Errorf("failures %+v, want %v", failures, c.want)
			}
		})
	}
}

// A url is signed by what its host is called, which the failure does not tell.
func TestFailuresOfURLsTellNoSignature(t *testing.T) {
	GuardURLs()
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	_, err := read(t, source, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5,
		URLs: []string{"http://summer2024xyzabc.invalid/more?sig=summer2024xyzabc.invalid%2Fmore"},
	})
	e := wantClass(t, source.Failure(err), failure.Unreachable)
	wantNothingOf(t, "summer2024", e.Error())
}
