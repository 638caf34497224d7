// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// mirrored is a node whose registry.test has a mirror in front of it.
type mirrored struct {
	*node
	mirror *resolvertest.Registry
}

func newMirrored(t *testing.T, opts ...option) *mirrored {
	t.Helper()
	m := &mirrored{node: newNode(t, opts...), mirror: resolvertest.New(t)}
	m.withMirror()
	return m
}

func (m *mirrored) withMirror() {
	m.t.Helper()
	m.hostsTOML("registry.test", m.server(m.r)+m.node.mirror(m.mirror, ""))
}

func (m *mirrored) withoutMirror() {
	m.t.Helper()
	m.hostsTOML("registry.test", m.server(m.r))
}

// both pushes an image to the registry and the mirror.
func (m *mirrored) both(ref string, img resolvertest.Pushable) digest.Digest {
	m.t.Helper()
	m.push(ref, img)
	return m.daemon.push(m.mirror, ref, img)
}

// wantSources compares what the record of an image, and what CRI, say of its
// sources.
func (m *mirrored) wantSources(what, ref, source, content string) {
	m.t.Helper()
	labels := m.labels(ref)
	want(m.t, what+": pull-source", labels["pull-source"], source)
	want(m.t, what+": content-sources", labels["content-sources"], content)
	shown := ownAnnotations(m.imageStatus(ref).GetImage().GetSpec().GetAnnotations())
	want(m.t, what+": pull-source of CRI", shown["pull-source"], source)
	want(m.t, what+": content-sources of CRI", shown["content-sources"], content)
}

// of takes requests for one of these digests.
func of(digests ...v1.Hash) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return slices.ContainsFunc(digests, func(h v1.Hash) bool { return path.Base(r.URL.Path) == h.String() })
	}
}

// refuse answers GET requests that are taken with the code.
func refuse(r *resolvertest.Registry, code int, taken func(*http.Request) bool) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodGet && taken(req) {
			w.WriteHeader(code)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// breakOff begins an answer to the first GET request for each path that is
// taken, and goes away before the first byte; it refuses others.
func breakOff(r *resolvertest.Registry, taken func(*http.Request) bool) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !taken(req) {
			next.ServeHTTP(w, req)
			return
		}
		if r.Count(func(past resolvertest.Request) bool { return past.Path == req.URL.Path }) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", "100000")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// corrupt flips a bit in what is served of these digests.
func corrupt(r *resolvertest.Registry, digests ...v1.Hash) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !of(digests...)(req) {
			next.ServeHTTP(w, req)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, req)
		body := answer.Body.Bytes()
		body[0] ^= 1
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	})
}

// parts are the digests of an image.
type parts struct {
	manifest, config v1.Hash
	layers           []v1.Hash
}

func partsOf(t *testing.T, img v1.Image) (p parts) {
	t.Helper()
	var err error
	if p.manifest, err = img.Digest(); err != nil {
		t.Fatal(err)
	}
	if p.config, err = img.ConfigName(); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		p.layers = append(p.layers, h)
	}
	return p
}

// TestSourceContent pulls images of which a mirror serves only a part.
func TestSourceContent(t *testing.T) {
	t.Parallel()
	d := start(t)
	const both = "{m},{o}"
	for i, tc := range []struct {
		what            string
		trouble         func(mirror *resolvertest.Registry, p parts)
		source, content string
	}{
		{"all", func(*resolvertest.Registry, parts) {}, "{m}", ""},
		{"no layer", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.layers...)) }, "{m}", both},
		{"not one of the layers", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.layers[1])) }, "{m}", both},
		{"not the config", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.config)) }, "{m}", both},
		{"not the manifest", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.manifest)) }, "{o}", both},
		{"no content", func(r *resolvertest.Registry, _ parts) {
			refuse(r, http.StatusNotFound, func(*http.Request) bool { return true })
		}, "{o}", ""},
		{"the manifest alone, with errors for the rest", func(r *resolvertest.Registry, p parts) {
			refuse(r, http.StatusInternalServerError, of(append(p.layers, p.config)...))
		}, "{m}", both},
		{"a part of each layer", func(r *resolvertest.Registry, _ parts) {
			r.DropMidBlob(50_000)
			refuse(r, http.StatusServiceUnavailable, func(req *http.Request) bool { return req.Header.Get("Range") != "" })
		}, "{m}", both},
		{"answers without a byte", func(r *resolvertest.Registry, p parts) {
			refuse(r, http.StatusNotFound, of(p.manifest, p.config))
			breakOff(r, of(p.layers...))
		}, "{o}", ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := &mirrored{node: &node{daemon: d.in(t), r: resolvertest.New(t)}, mirror: resolvertest.New(t)}
			m.withMirror()
			img, ref := resolvertest.Image(int64(i), 2, 200_000), fmt.Sprintf("app:%d", i)
			m.both(ref, img)
			tc.trouble(m.mirror, partsOf(t, img))
			m.mustPull(named(ref))
			names := strings.NewReplacer("{m}", m.mirror.Host(), "{o}", m.r.Host())
			m.wantSources(tc.what, named(ref), names.Replace(tc.source)+"/"+ref, names.Replace(tc.content))
			isRunnable(m.daemon, named(ref))
		})
	}
}

// TestSourceOfAResumedPull breaks a pull off in the middle of a layer. What
// another pull gets from another host is only the rest.
func TestSourceOfAResumedPull(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := named("app:1")
	m.both("app:1", resolvertest.Image(1, 1, 200_000))
	m.mirror.DropMidBlob(50_000)
	_ = m.mustFail(ref, []string{"unreachable", m.mirror.Host()})
	want(t, "target after a failure", m.target(ref), "")
	m.withoutMirror()
	m.mustPull(ref)
	isRunnable(m.daemon, ref)
	// Unless the garbage collector was faster, there was something to resume.
	if m.r.Count(func(r resolvertest.Request) bool { return r.Header.Get("Range") != "" }) > 0 {
		want(t, "the mirror is a source", slices.Contains(m.allSources(ref), m.mirror.Host()), true)
	}
	want(t, "the registry is a source", slices.Contains(m.allSources(ref), m.r.Host()), true)
}

// allSources returns every host that a record names as a source.
func (m *mirrored) allSources(ref string) []string {
	m.t.Helper()
	labels := m.labels(ref)
	host, _, _ := strings.Cut(labels["pull-source"], "/")
	return append(strings.Split(labels["content-sources"], ","), host)
}

// TestSourceOfWrongBytes lets a mirror serve wrong bytes of one part of an
// image. They are thrown away: the mirror has not served the image that is
// pulled once it is out of the way.
func TestSourceOfWrongBytes(t *testing.T) {
	t.Parallel()
	d := start(t)
	for i, tc := range []struct {
		what string
		part func(p parts) v1.Hash
	}{
		{"layer", func(p parts) v1.Hash { return p.layers[0] }},
		{"config", func(p parts) v1.Hash { return p.config }},
		{"manifest", func(p parts) v1.Hash { return p.manifest }},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := &mirrored{node: &node{daemon: d.in(t), r: resolvertest.New(t)}, mirror: resolvertest.New(t)}
			m.withMirror()
			img := resolvertest.Image(int64(i), 1, 100_000)
			tag := fmt.Sprintf("app:%d", i)
			m.both(tag, img)
			p := partsOf(t, img)
			wrong := tc.part(p)
			// The mirror has this part alone.
			refuse(m.mirror, http.StatusNotFound, func(r *http.Request) bool { return !of(wrong)(r) })
			corrupt(m.mirror, wrong)
			ref := named(tag)
			_ = m.mustFail(ref, []string{"invalid", m.mirror.Host(), wrong.String()})
			for _, name := range []string{ref, named("app@" + p.manifest.String())} {
				if img, ok := m.record(name); ok {
					t.Errorf("there is a record of it: %v", img)
				}
			}
			m.withoutMirror()
			// containerd keeps what it cannot commit until its garbage
			// collector runs.
			eventually(t, "the image can be pulled", func() bool {
				_, err := m.pull(ref)
				return err == nil
			})
			want(t, "the mirror is a source", slices.Contains(m.allSources(ref), m.mirror.Host()), false)
			want(t, "the registry is a source", slices.Contains(m.allSources(ref), m.r.Host()), true)
			isRunnable(m.daemon, ref)
		})
	}
}
