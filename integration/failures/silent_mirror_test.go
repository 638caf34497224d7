// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSilentMirror has a mirror begin answers and not go on with them. The registry behind it
// gives the rest, of each image, before containerd ends the pull.
func TestSilentMirror(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]resolvertest.Part{"manifests": resolvertest.Manifests, "blobs": resolvertest.Blobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "3s"`))
			n.Serve("registry.test", n.Registry, mirror)
			for i, tag := range []string{"app:1", "app:2"} {
				img := nodetest.Image(int64(i))
				n.Push(tag, img)
				n.PushTo(mirror, tag, img)
			}
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+string(part)+"/") {
					nothingAfterHeaders(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			for _, tag := range []string{"app:1", "app:2"} {
				n.MustPull(nodetest.Named(tag))
				n.WantRunnable(nodetest.Named(tag))
			}
		})
	}
}

// TestMirrorSilentInItsToken has a mirror begin its answers with tokens and not go on with them. The
// registry behind it gives each image, before containerd ends the pull.
func TestMirrorSilentInItsToken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]resolvertest.Option{"HTTP1": nil, "HTTP2": {resolvertest.WithTLS()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t, append(opts, resolvertest.WithTokenAuth(nil))...)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
			n.WriteHosts("registry.test", fmt.Sprintf("server = %q\n[host.%q]\nskip_verify = true\n", n.Registry.URL(), mirror.URL()))
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "token") {
					nothingAfterHeaders(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			for i, tag := range []string{"app:1", "app:2"} {
				n.Push(tag, nodetest.Image(int64(i)))
				n.MustPull(nodetest.Named(tag))
				n.WantRunnable(nodetest.Named(tag))
			}
		})
	}
}

// TestMirrorWithoutAnAnswer has a mirror that answers checks and manifests say nothing at all when it is
// asked for a blob or a token, or no more than the first byte of a header. The registry behind it gives
// each image, before containerd ends the pull.
func TestMirrorWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	nothing := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, test := range map[string]struct {
		path  string
		says  http.HandlerFunc
		login bool
	}{
		"blobs":                      {path: "/blobs/", says: nothing},
		"the first byte of a header": {path: "/blobs/", says: firstByte},
		"tokens":                     {path: "token", says: nothing, login: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts []resolvertest.Option
			if test.login {
				opts = append(opts, resolvertest.WithTokenAuth(nil))
			}
			mirror := resolvertest.New(t, opts...)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "3s"`))
			n.Serve("registry.test", n.Registry, mirror)
			for i, tag := range []string{"app:1", "app:2"} {
				img := nodetest.Image(int64(i))
				n.Push(tag, img)
				if !test.login {
					n.PushTo(mirror, tag, img)
				}
			}
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, test.path) {
					test.says(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			for _, tag := range []string{"app:1", "app:2"} {
				n.MustPull(nodetest.Named(tag))
				n.WantRunnable(nodetest.Named(tag))
			}
		})
	}
}

// firstByte sends the first byte of an answer, and then nothing.
func firstByte(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("H"))
	_, _ = io.Copy(io.Discard, c) // until the other end closes it
}

// TestGarbageBeforeUselessMirror has a mirror send other bytes for the begin of a layer, and
// another one the rest, but not all of the layer when it is asked for that. The registry gives it.
func TestGarbageBeforeUselessMirror(t *testing.T) {
	t.Parallel()
	img := bigImage(1)
	size := layerSize(t, img)
	for name, whole := range map[string]http.HandlerFunc{"silent": nothingAfterHeaders, "not found": http.NotFound} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := resolvertest.New(t), resolvertest.New(t)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
			n.Serve("registry.test", n.Registry, first, second)
			n.Push("app:1", img)
			n.PushTo(first, "app:1", img)
			n.PushTo(second, "app:1", img)
			onLayer(t, first, img, func(w http.ResponseWriter, r *http.Request) { beginGarbage(w, r, size) })
			onLayer(t, second, img, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") == "" {
					whole(w, r)
					return
				}
				garbageFrom(w, r, size)
			})
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			n.WantRunnable(ref)
		})
	}
}

// TestSilentAfterGarbageRest has a mirror send other bytes for the rest of a layer that a killed
// daemon has begun, and nothing when it is asked for all of it. The registry gives it.
func TestSilentAfterGarbageRest(t *testing.T) {
	t.Parallel()
	img := bigImage(1)
	size := layerSize(t, img)
	mirror := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
	n.Serve("registry.test", n.Registry, mirror)
	n.Push("app:1", img)
	n.PushTo(mirror, "app:1", img)
	var killed atomic.Bool
	onLayer(t, mirror, img, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !killed.Load():
			beginGarbage(w, r, size)
		case r.Header.Get("Range") == "":
			nothingAfterHeaders(w, r)
		default:
			garbageFrom(w, r, size)
		}
	})
	ref := nodetest.Named("app:1")
	var pull sync.WaitGroup
	pull.Go(func() { _, _ = n.Pull(ref) })
	nodetest.Eventually(t, "a part of the layer is written", func() bool { _, bytes := unfinished(n); return bytes >= 1<<20 })
	n.Kill()
	pull.Wait()
	killed.Store(true)
	n.Restart()
	n.MustPull(ref)
	n.WantRunnable(ref)
}

// beginGarbage sends the begin of a layer of that size, with other bytes, and then nothing.
func beginGarbage(w http.ResponseWriter, r *http.Request, size int64) {
	w.Header().Set("Content-Length", fmt.Sprint(size))
	_, _ = w.Write(make([]byte, 2<<20))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// garbageFrom sends the rest of a layer of that size that is asked for, with other bytes.
func garbageFrom(w http.ResponseWriter, r *http.Request, size int64) {
	var from int64
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil || from > size {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(make([]byte, size-from))
}
