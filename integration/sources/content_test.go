// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceContent pulls images of which a mirror serves only a part.
func TestSourceContent(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	const both = "{m},{o}"
	for i, tc := range []struct {
		what            string
		fault           func(mirror *resolvertest.Registry, p parts)
		source, content string
	}{
		{"all", func(*resolvertest.Registry, parts) {}, "{m}", ""},
		{"no layer", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.layers...)) }, "{m}", both},
		{"not one of the layers", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.layers[1])) }, "{m}", both},
		{"not the config", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, of(p.config)) }, "{m}", both},
		{"not the manifest", func(r *resolvertest.Registry, p parts) { refuse(r, http.StatusNotFound, orTag(of(p.manifest))) }, "{o}", both},
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
			refuse(r, http.StatusNotFound, orTag(of(p.manifest, p.config)))
			breakOff(r, of(p.layers...))
		}, "{o}", ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := mirroredOn(n.In(t).With(resolvertest.New(t)))
			img, ref := resolvertest.Image(int64(i), 2, 200_000), fmt.Sprintf("app:%d", i)
			m.both(ref, img)
			tc.fault(m.mirror, partsOf(t, img))
			m.MustPull(nodetest.Named(ref))
			names := strings.NewReplacer("{m}", m.mirror.Host(), "{o}", m.Registry.Host())
			m.wantSources(tc.what, nodetest.Named(ref), names.Replace(tc.source)+"/"+ref, names.Replace(tc.content))
			m.WantRunnable(nodetest.Named(ref))
		})
	}
}

// TestSourceOfAResumedPull breaks a pull off in the middle of a layer. The next
// pull gets only the rest from another host.
func TestSourceOfAResumedPull(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := nodetest.Named("app:1")
	m.both("app:1", resolvertest.Image(1, 1, 200_000))
	m.mirror.DropMidBlob(50_000)
	undo := m.Registry.Reset(resolvertest.Blobs)
	m.MustFail(ref, []string{"unreachable", m.mirror.Host()})
	nodetest.Want(t, "target after a failure", m.Target(ref), "")
	undo()
	m.Registry.Forget()
	m.withoutMirror()
	m.MustPull(ref)
	m.WantRunnable(ref)
	// Unless the garbage collector was faster, there was something to resume.
	if m.Registry.Count(func(r resolvertest.Request) bool { return r.Header.Get("Range") != "" }) > 0 {
		nodetest.Want(t, "the mirror is a source", slices.Contains(m.allSources(ref), m.mirror.Host()), true)
	}
	nodetest.Want(t, "the registry is a source", slices.Contains(m.allSources(ref), m.Registry.Host()), true)
}

// TestSourceOfWrongBytes lets a mirror serve wrong bytes of one part of an
// image. They are thrown away, and a manifest or a layer is fetched from the registry in the
// same pull: the mirror has not served the image that is pulled then, or once the
// mirror is out of the way.
func TestSourceOfWrongBytes(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for i, tc := range []struct {
		what string
		part func(p parts) v1.Hash
	}{
		{"layer", func(p parts) v1.Hash { return p.layers[0] }},
		{"config", func(p parts) v1.Hash { return p.config }},
		{"manifest", func(p parts) v1.Hash { return p.manifest }},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := mirroredOn(n.In(t).With(resolvertest.New(t)))
			img := resolvertest.Image(int64(i), 1, 100_000)
			tag := fmt.Sprintf("app:%d", i)
			m.both(tag, img)
			p := partsOf(t, img)
			wrong := tc.part(p)
			taken := of(wrong)
			if wrong == p.manifest {
				taken = orTag(taken)
			}
			// The mirror has this part alone.
			refuse(m.mirror, http.StatusNotFound, func(r *http.Request) bool { return !taken(r) })
			corrupt(m.mirror, taken)
			ref := nodetest.Named(tag)
			if wrong != p.config {
				m.MustPull(ref)
			} else {
				m.MustFail(ref, []string{"invalid", m.mirror.Host(), wrong.String()})
				for _, name := range []string{ref, nodetest.Named("app@" + p.manifest.String())} {
					if img, ok := m.Record(name); ok {
						t.Errorf("there is a record of it: %v", img)
					}
				}
				m.withoutMirror()
				m.MustPull(ref)
			}
			nodetest.Want(t, "the mirror is a source", slices.Contains(m.allSources(ref), m.mirror.Host()), false)
			nodetest.Want(t, "the registry is a source", slices.Contains(m.allSources(ref), m.Registry.Host()), true)
			m.WantRunnable(ref)
		})
	}
}
