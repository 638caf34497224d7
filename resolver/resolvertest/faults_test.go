// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func digestOf(s string) digest.Digest { return digest.Digest(s) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRefuseAndRestore(t *testing.T) {
	for _, opts := range [][]resolvertest.Option{nil, {resolvertest.WithTLS()}} {
		r := resolvertest.New(t, opts...)
		c, host := client(t, r), r.Host()
		for range 3 {
			_ = get(t, c, r.URL()+"/v2/") // leaves a warm connection
			r.Refuse()
			r.Refuse()
			if _, err := do(t, c, http.MethodGet, r.URL()+"/v2/"); err == nil {
				t.Fatal("the warm connection still answers")
			}
			c.CloseIdleConnections()
			if _, err := do(t, c, http.MethodGet, r.URL()+"/v2/"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("refused: got %v", err)
			}
			push(t, r, "app:1", resolvertest.Image(1, 1, 10)) // works while down
			if err := r.Restore(); err != nil {
				t.Fatal(err)
			}
			want(t, "host", r.Host(), host)
		}
		want(t, "status", get(t, c, r.URL()+"/v2/app/manifests/1").StatusCode, http.StatusOK)
	}
}

func TestSwallow(t *testing.T) {
	r := resolvertest.New(t)
	c := client(t, r)
	c.Transport.(*http.Transport).DialContext = (&net.Dialer{Timeout: 300 * time.Millisecond}).DialContext
	_ = get(t, c, r.URL()+"/v2/")
	for range 2 {
		if err := r.Swallow(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := do(t, c, http.MethodGet, r.URL()+"/v2/")
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || !op.Timeout() {
		t.Errorf("got %v, want a timeout to dial", err)
	}
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	want(t, "status", get(t, c, r.URL()+"/v2/").StatusCode, http.StatusOK)
}

const manifest, token, version = "/v2/app/manifests/1", "/token", "/v2/"

// faults are the ready-made ones, and what each looks like to a client.
var faults = []struct {
	name   string
	make   func(*resolvertest.Registry) func()
	method string
	path   string // "" for the first layer
	spared string // a path that stays as it was
	check  func(t *testing.T, a answer, err error)
}{
	{"status", func(r *resolvertest.Registry) func() {
		return r.Status(resolvertest.Manifests, 503, "Retry-After", "7", "X-Other", "y")
	}, "GET", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 503)
		want(t, "Retry-After", a.Header.Get("Retry-After"), "7")
		want(t, "X-Other", a.Header.Get("X-Other"), "y")
	}},
	{"status of the token server", func(r *resolvertest.Registry) func() {
		return r.Status(resolvertest.Tokens, 502)
	}, "GET", token, manifest, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 502)
	}},
	{"status of blobs", func(r *resolvertest.Registry) func() {
		return r.Status(resolvertest.Blobs, 403)
	}, "GET", "", manifest, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 403)
	}},
	{"reset", func(r *resolvertest.Registry) func() {
		return r.Reset(resolvertest.Manifests)
	}, "GET", manifest, version, func(t *testing.T, _ answer, err error) {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want a reset connection", err)
		}
	}},
	{"html", func(r *resolvertest.Registry) func() {
		return r.HTML(resolvertest.Manifests)
	}, "HEAD", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 200)
		want(t, "type", a.Header.Get("Content-Type"), "text/html; charset=utf-8")
		want(t, "digest", a.Header.Get("Docker-Content-Digest"), "")
	}},
	{"no head", (*resolvertest.Registry).NoHead, "HEAD", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 405)
	}},
	{"no digest", func(r *resolvertest.Registry) func() {
		return r.NoDigest(resolvertest.Manifests)
	}, "HEAD", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "status", a.StatusCode, 200)
		want(t, "digest", a.Header.Get("Docker-Content-Digest"), "")
		want(t, "length is given", a.ContentLength > 0, true)
	}},
	{"no length of a head", func(r *resolvertest.Registry) func() {
		return r.NoLength(resolvertest.Manifests)
	}, "HEAD", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "length", a.ContentLength, -1)
		want(t, "digest is given", a.Header.Get("Docker-Content-Digest") != "", true)
	}},
	{"no length of a body", func(r *resolvertest.Registry) func() {
		return r.NoLength(resolvertest.Manifests)
	}, "GET", manifest, version, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "length", a.ContentLength, -1)
		want(t, "digest", digest.FromBytes(a.body).String(), a.Header.Get("Docker-Content-Digest"))
	}},
	{"corrupt", func(r *resolvertest.Registry) func() {
		return r.Corrupt(resolvertest.Blobs)
	}, "GET", "", manifest, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "length", int64(len(a.body)), a.ContentLength)
		want(t, "body is true", digest.FromBytes(a.body).String() == a.Header.Get("Docker-Content-Digest"), false)
	}},
	{"drop", func(r *resolvertest.Registry) func() {
		return r.DropMidBlob(100)
	}, "GET", "", manifest, func(t *testing.T, a answer, err error) {
		want(t, "error", err, nil)
		want(t, "error of the body", a.err, io.ErrUnexpectedEOF)
		want(t, "bytes", len(a.body), 100)
	}},
}

// TestFaults holds what each ready-made fault looks like to a client, that
// it keeps to its part, and that undo and Restore end it.
func TestFaults(t *testing.T) {
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			r := resolvertest.New(t, resolvertest.WithTokenAuth(nil))
			r.Allow(func(string, string) bool { return true })
			img := resolvertest.Image(1, 1, 10_000)
			push(t, r, "app:1", img)
			c := client(t, r)
			path := tt.path
			if path == "" {
				path = "/v2/app/blobs/" + must(must(img.Layers())[0].Digest()).String()
			}
			bearer := "Bearer " + tokenFor(t, c, r, "", "")
			ask := func(path string) (answer, error) {
				if path == token {
					return do(t, c, tt.method, r.URL()+path)
				}
				return do(t, c, tt.method, r.URL()+path, "Authorization", bearer)
			}
			ok := func(path string) {
				t.Helper()
				a, err := ask(path)
				if err != nil || a.StatusCode != http.StatusOK || a.err != nil {
					t.Errorf("%s: got %v %v", path, a.Response, err)
				}
			}
			for _, end := range []func(undo func()){
				func(undo func()) { undo(); undo() },
				func(func()) { want(t, "error of Restore", r.Restore(), nil) },
			} {
				ok(path)
				undo := tt.make(r)
				a, err := ask(path)
				tt.check(t, a, err)
				ok(tt.spared)
				end(undo)
				ok(path)
			}
		})
	}
}

func TestDropMidBlobCountsFromTheStart(t *testing.T) {
	r := resolvertest.New(t)
	img := resolvertest.Image(1, 1, 10_000)
	push(t, r, "app:1", img)
	r.DropMidBlob(100)
	url := r.URL() + "/v2/app/blobs/" + must(must(img.Layers())[0].Digest()).String()
	a := get(t, client(t, r), url, "Range", "bytes=60-")
	want(t, "status", a.StatusCode, http.StatusPartialContent)
	want(t, "bytes", len(a.body), 40)
}

func TestWrongDigest(t *testing.T) {
	r := resolvertest.New(t)
	actual := push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	c := client(t, r)
	undo := r.WrongDigest()
	head, err := do(t, c, http.MethodHead, r.URL()+"/v2/app/manifests/1")
	if err != nil {
		t.Fatal(err)
	}
	wrong := head.Header.Get("Docker-Content-Digest")
	if wrong == actual || digestOf(wrong).Validate() != nil {
		t.Fatalf("digest of the tag is %q", wrong)
	}
	a := get(t, c, r.URL()+"/v2/app/manifests/"+wrong)
	want(t, "status of the false digest", a.StatusCode, http.StatusOK)
	want(t, "its content's digest", digest.FromBytes(a.body).String(), actual)
	want(t, "status of the true digest", get(t, c, r.URL()+"/v2/app/manifests/"+actual).StatusCode, http.StatusOK)
	undo()
	want(t, "digest afterwards", get(t, c, r.URL()+"/v2/app/manifests/1").Header.Get("Docker-Content-Digest"), actual)
}

func TestScript(t *testing.T) {
	r := resolvertest.New(t)
	c := client(t, r)
	teapot := func(code int) func() {
		return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if req.URL.Query().Has("tea") {
				w.WriteHeader(code)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
	first, second := teapot(418), teapot(419)
	want(t, "status", get(t, c, r.URL()+"/v2/?tea").StatusCode, 419)
	want(t, "status of another", get(t, c, r.URL()+"/v2/").StatusCode, 200)
	second()
	want(t, "status after undoing the newest", get(t, c, r.URL()+"/v2/?tea").StatusCode, 418)
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
	want(t, "status after Restore", get(t, c, r.URL()+"/v2/?tea").StatusCode, 418)
	first()
	want(t, "status in the end", get(t, c, r.URL()+"/v2/?tea").StatusCode, 200)
}

// TestScriptMayRefuse holds that a script can close the listener that it answers
// behind: the registry goes down in mid-pull.
func TestScriptMayRefuse(t *testing.T) {
	r := resolvertest.New(t)
	r.Script(func(http.ResponseWriter, *http.Request, http.Handler) {
		r.Refuse()
		panic(http.ErrAbortHandler)
	})
	if a, err := do(t, client(t, r), http.MethodGet, r.URL()+"/v2/"); err == nil {
		t.Errorf("got %v, want no answer", a.Status)
	}
}
