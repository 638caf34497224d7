// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// Each cause of a failed pull has its class.
func TestCausesOfAFailedPull(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble func(*resolvertest.Registry)
		class   failure.Class
	}{
		"refused":             {func(r *resolvertest.Registry) { r.Refuse() }, failure.Unreachable},
		"503":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 503) }, failure.Unavailable},
		"blobs 502":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 502) }, failure.Unavailable},
		"429":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 429, "Retry-After", "3600") }, failure.RateLimited},
		"404":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 404) }, failure.NotFound},
		"blobs 404":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 404) }, failure.NotFound},
		"401":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 401) }, failure.Unauthorized},
		"blobs 403":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 403) }, failure.Forbidden},
		"416":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 416) }, failure.Invalid},
		"302 without target":  {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 302) }, failure.Invalid},
		"302 without end":     {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 302, "Location", "/v2/x/blobs/y") }, failure.Invalid},
		"reset":               {func(r *resolvertest.Registry) { r.Reset(resolvertest.Blobs) }, failure.Unreachable},
		"drops in the middle": {func(r *resolvertest.Registry) { r.DropMidBlob(1000) }, failure.Unreachable},
		"corrupt manifest":    {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Manifests) }, failure.Invalid},
		"corrupt blobs":       {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Blobs) }, failure.Invalid},
		"page for a manifest": {func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }, failure.Invalid},
		"page for blobs":      {func(r *resolvertest.Registry) { r.HTML(resolvertest.Blobs) }, failure.Invalid},
		"unknown encoding": {func(r *resolvertest.Registry) {
			r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				w.Header().Set("Content-Encoding", "morse")
				next.ServeHTTP(w, req)
			})
		}, failure.Invalid},
		"corrupt layers only": {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { p[len(p)-1] ^= 1; return p }) }, failure.Invalid},
		"short layers":        {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { return p[:len(p)-1] }) }, failure.Invalid},
		"long layers":         {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { return append(p, 0) }) }, failure.Invalid},
	} {
		for _, prefetch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, prefetch is %v", name, prefetch), func(t *testing.T) {
				list, hosts := registries(t, 1)
				r := list[0]
				p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
				p.prefetch = prefetch
				source, err := p.pull(t, func() { test.trouble(r) })
				if err == nil {
					t.Fatal("the pull succeeded")
				}
				cause := source.Failure(fmt.Errorf("pull and unpack image: %w", err))
				if cause == nil {
					t.Fatalf("nobody is blamed for %v", err)
				}
				e := wantClass(t, cause, test.class)
				if len(e.Attempts) == 0 || !strings.Contains(e.Error(), r.Host()) {
					t.Errorf("%q does not blame %s", e, r.Host())
				}
			})
		}
	}
}

// onlyLayers changes the blobs that are not JSON.
func onlyLayers(r *resolvertest.Registry, change func([]byte) []byte) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		var b buffer
		next.ServeHTTP(&b, req)
		if data := b.Bytes(); len(data) > 0 && data[0] != '{' && strings.Contains(req.URL.Path, "/blobs/") {
			_, _ = w.Write(change(data))
			return
		}
		for k, v := range b.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(b.status())
		_, _ = w.Write(b.Bytes())
	})
}

// Each mirror is asked, and the origin's class is that of the pull.
func TestFailedPullFromSeveralHosts(t *testing.T) {
	for name, test := range map[string]struct {
		mirror, origin func(*resolvertest.Registry)
		class          failure.Class // None = the pull succeeds
		tries          int           // of the origin for one blob
	}{
		"mirror is corrupt":      {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Blobs) }, nil, failure.Invalid, 0},
		"mirror has nothing":     {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 404) }, nil, failure.None, 1},
		"origin is down":         {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 404) }, func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 500) }, failure.Unavailable, tries.MaxAttempts},
		"origin refuses":         {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 500) }, func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 403) }, failure.Forbidden, 1},
		"mirror is rate-limited": {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 429) }, nil, failure.None, 1},
	} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 2)
			p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				test.mirror(list[0])
				if test.origin != nil {
					test.origin(list[1])
				}
			})
			if test.class == failure.None {
				if err != nil {
					t.Fatal(err)
				}
			} else if e := wantClass(t, source.Failure(err), test.class); test.origin != nil && len(e.Attempts) != 2 {
				t.Errorf("got attempts %v", e.Attempts)
			}
			paths := map[string]int{}
			for _, req := range list[1].Requests() {
				paths[req.Path]++
			}
			for path, n := range paths {
				if strings.Contains(path, "/blobs/") && n > test.tries {
					t.Errorf("the origin was asked %d times for %s, want at most %d", n, path, test.tries)
				}
			}
		})
	}
}

// A connection that breaks is continued where it broke, and does not count.
func TestResumedPull(t *testing.T) {
	list, hosts := registries(t, 1)
	r := list[0]
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, func() {
		dropped := false
		undo := r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			var b buffer
			next.ServeHTTP(&b, req)
			data := b.Bytes()
			for k, v := range b.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(b.status())
			if !dropped && len(data) > 10_000 {
				dropped = true
				_, _ = w.Write(data[:5_000])
				w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(data)
		})
		t.Cleanup(undo)
	})
	if err != nil {
		t.Fatal(err)
	}
	if cause := source.Failure(syscall.ENOSPC); cause != nil {
		t.Errorf("the resumed fetch is blamed: %v", cause)
	}
}

// The next pull continues the content that a broken one left in the store.
func TestContinuedPull(t *testing.T) {
	list, hosts := registries(t, 1)
	r := list[0]
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, func() { r.DropMidBlob(20_000) })
	wantClass(t, source.Failure(err), failure.Unreachable)
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	r.Forget()
	if _, err := p.pull(t, nil); err != nil {
		t.Error(err)
	}
	continued := r.Count(func(req resolvertest.Request) bool { return req.Header.Get("Range") != "" })
	if continued == 0 {
		t.Error("nothing was continued")
	}
}

// Only the host is blamed whose content is not what it should be.
func TestBlameForContent(t *testing.T) {
	list, hosts := registries(t, 2)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, func() {
		list[0].Status(resolvertest.Manifests, http.StatusNotFound)
		onlyLayers(list[0], func(p []byte) []byte { p[len(p)-1] ^= 1; return p })
	})
	e := wantClass(t, source.Failure(err), failure.Invalid)
	for _, a := range e.Attempts {
		if a.Host != list[0].Host() {
			t.Errorf("%s is blamed: %v", a.Host, e)
		}
	}
}

// The end of a context is seen as what it is.
func TestInterruptedFetch(t *testing.T) {
	list, hosts := registries(t, 2)
	list[0].Hang(resolvertest.All)
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	desc := ocispec.Descriptor{Digest: manifestDigest, Size: int64(len(manifest)), MediaType: ocispec.MediaTypeImageManifest}
	source := s.Source(desc)
	fetcher, err := source.Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rc, err := fetcher.Fetch(ctx, desc)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(rc)
		done <- err
	}()
	waitFor(t, func() bool { return list[0].Count(nil) > 0 })
	cancel()
	if err = <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantClass(t, source.Failure(err), failure.Unreachable)
}

// A transfer that is interrupted while the caller waits got stuck.
func TestInterruptedPull(t *testing.T) {
	list, hosts := registries(t, 1)
	r := list[0]
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	got, err := p.session.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	r.Hang(resolvertest.Blobs)
	source := p.session.Source(got.Descriptor)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.transfer(ctx, source) }()
	waitFor(t, func() bool { return r.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0 })
	cancel()
	err = <-done
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	e := wantClass(t, source.Failure(err), failure.Unreachable)
	if !strings.Contains(e.Error(), r.Host()) {
		t.Error(e)
	}

	// Nobody was asked: nobody is to blame.
	if cause := p.session.Source(got.Descriptor).Failure(context.Canceled); cause != nil {
		t.Error(cause)
	}
}

func TestFailureOfOthers(t *testing.T) {
	list, hosts := registries(t, 1)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err, list)
	}
	for _, err := range []error{syscall.ENOSPC, errors.New("image verifier said no"), errdefs.ErrNotFound, errdefs.ErrUnavailable, &net404{}} {
		if cause := source.Failure(fmt.Errorf("transfer: %w", err)); cause != nil {
			t.Errorf("%v: %v is blamed", err, cause)
		}
	}
}

type net404 struct{}

func (*net404) Error() string { return "404" }
