// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// forgery is what a registry serves that knows the digests of an image, and
// does not have its content.
type forgery struct {
	top    ocispec.Descriptor // what its tag names
	served map[digest.Digest][]byte
}

// forge returns a forgery that serves the config and the layers of an image.
func forge(n *nodetest.Node, img v1.Image) *forgery {
	n.T.Helper()
	f := &forgery{served: map[digest.Digest][]byte{}}
	config, err := img.RawConfigFile()
	n.Must(err)
	f.served[digest.FromBytes(config)] = config
	layers, err := img.Layers()
	n.Must(err)
	for _, l := range layers {
		r, err := l.Compressed()
		n.Must(err)
		b, err := io.ReadAll(r)
		n.Must(err)
		f.served[digest.FromBytes(b)] = b
	}
	return f
}

// registry starts a registry that serves the forgery.
func (f *forgery) registry(t testing.TB) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t)
	r.Script(func(w http.ResponseWriter, req *http.Request, _ http.Handler) { f.serve(w, req) })
	return r
}

// manifestOf returns the manifest of an image.
func manifestOf(n *nodetest.Node, img v1.Image) (m ocispec.Manifest) {
	n.T.Helper()
	raw, err := img.RawManifest()
	n.Must(err)
	n.Must(json.Unmarshal(raw, &m))
	return m
}

// add serves a document too.
func (f *forgery) add(t *testing.T, document any) ocispec.Descriptor {
	t.Helper()
	b, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(b), Size: int64(len(b))}
	if _, ok := document.(ocispec.Index); ok {
		desc.MediaType = ocispec.MediaTypeImageIndex
	}
	f.served[desc.Digest] = b
	return desc
}

// forgeries are what can be claimed of an image with that record and config.
func forgeries(t *testing.T, target, config ocispec.Descriptor) map[string]*forgery {
	t.Helper()
	junk := []byte("junk")
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(junk), Size: int64(len(junk))}
	versioned := specs.Versioned{SchemaVersion: 2}
	odd := config
	odd.MediaType = "application/octet-stream"
	asLayer := config
	asLayer.MediaType = ocispec.MediaTypeImageLayer
	manifest := func(config ocispec.Descriptor, layers ...ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers}
	}
	index := func(of ocispec.Descriptor) ocispec.Index {
		return ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{of}}
	}
	all := map[string]*forgery{}
	claim := func(what string, top func(f *forgery) ocispec.Descriptor) {
		f := &forgery{served: map[digest.Digest][]byte{layer.Digest: junk}}
		f.top = top(f)
		all[what] = f
	}
	claim("the digest alone", func(*forgery) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: target.MediaType, Digest: target.Digest, Size: target.Size}
	})
	for what, document := range map[string]any{
		"an index of it":             index(target),
		"a manifest with its config": manifest(config, layer, layer),
		"a config of unknown type":   manifest(odd, layer, layer),
		"a config taken for a layer": manifest(asLayer, layer),
	} {
		claim(what, func(f *forgery) ocispec.Descriptor { return f.add(t, document) })
	}
	claim("an index of such a manifest", func(f *forgery) ocispec.Descriptor {
		return f.add(t, index(f.add(t, manifest(config, layer, layer))))
	})
	return all
}

// TestAccessImpostor has a private image on the node, and somebody else's
// registry that knows digests and does not have the content. By no name of that
// registry the image can be had.
func TestAccessImpostor(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	private, _ := s.Record(s.ref(":1"))
	manifest, err := nodetest.Image(1).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	config := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageConfig, Digest: digest.Digest(manifest.Config.Digest.String()), Size: manifest.Config.Size,
	}
	for what, f := range forgeries(t, private.Target, config) {
		t.Run(what, func(t *testing.T) {
			evil := resolvertest.New(t)
			name := fmt.Sprintf("evil%s.test", evil.Host()[strings.LastIndex(evil.Host(), ":")+1:])
			evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
			n := n.In(t)
			n.Serve(name, evil)
			for _, ref := range []string{name + "/x:1", name + "/x@" + f.top.Digest.String()} {
				for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
					if id, err := n.Pull(ref, node.Hint("policy", policy)); err == nil {
						t.Errorf("%s by %s gives %s", ref, policy, id)
					}
				}
				if _, ok := n.Record(ref); ok {
					t.Errorf("there is a record of %s", ref)
				}
			}
		})
	}
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
}

// TestAccessImpostorBehindAMirror has somebody's registry answer with the digest of a
// private image, behind a mirror. What the mirror does not serve under that name the
// registry has to show; what it serves is the mirror's to give.
func TestAccessImpostorBehindAMirror(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	private, _ := s.Record(s.ref(":1"))
	evil, mirror := resolvertest.New(t), resolvertest.New(t)
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		(&forgery{top: private.Target}).serve(w, r)
	})
	s.PushTo(mirror, "private/app:1", nodetest.Image(1))
	s.Serve("evil.test", evil, mirror)
	const ref = "evil.test/app/x:1"
	for _, order := range []string{"Mirrors", "Origin", "OriginThenMirrors"} {
		if id, err := s.Pull(ref, node.Hint("resolve-from", order)); err == nil {
			t.Errorf("%s gives %s", order, id)
		}
		if _, ok := s.Record(ref); ok {
			t.Errorf("%s: there is a record of %s", order, ref)
		}
	}
	s.PushTo(mirror, "app/x:1", nodetest.Image(1))
	s.MustPull(ref, node.Hint("resolve-from", "Origin"))
}

// serve answers as a registry does that has the top and what is served.
func (f *forgery) serve(w http.ResponseWriter, r *http.Request) {
	object := digest.Digest(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
	if object.Validate() != nil {
		object = f.top.Digest
	}
	body, ok := f.served[object]
	if r.Method == http.MethodHead && object == f.top.Digest {
		w.Header().Set("Docker-Content-Digest", f.top.Digest.String())
		w.Header().Set("Content-Type", f.top.MediaType)
		w.Header().Set("Content-Length", fmt.Sprint(f.top.Size))
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	if object == f.top.Digest {
		w.Header().Set("Content-Type", f.top.MediaType)
	}
	_, _ = w.Write(body)
}

// TestAccessTwoRepositories holds that a registry that has an image may give it
// under several names, without a layer being downloaded twice.
func TestAccessTwoRepositories(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	one, two := g.scene(t, n, "private/one"), g.scene(t, n, "private/two")
	one.push("1", nodetest.Image(1))
	two.push("1", nodetest.Image(1))
	one.wantPull(alice, "Always", one.ref(":1"), "Pulled")
	two.wantPull(alice, "Always", two.ref(":1"), "Pulled")
	nodetest.Want(t, "blobs for the second name", g.Count(resolvertest.Of("GET", resolvertest.Blobs)), 1)
}
