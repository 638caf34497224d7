// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessImpostor has a private image on the node, and somebody else's
// registry that knows digests and does not have the content. By no name of that
// registry the image can be had.
func TestAccessImpostor(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	_ = s.ask(alice, "Always", s.ref(":1"), "Pulled")
	private, _ := s.record(s.ref(":1"))
	manifest, err := image(1).Manifest()
	if err != nil {
		t.Fatal(err)
	}
	config := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageConfig, Digest: digest.Digest(manifest.Config.Digest.String()), Size: manifest.Config.Size,
	}
	junk := []byte("junk")
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(junk), Size: int64(len(junk))}
	versioned := specs.Versioned{SchemaVersion: 2}
	odd := config
	odd.MediaType = "application/octet-stream"
	asLayer := config
	asLayer.MediaType = ocispec.MediaTypeImageLayer

	for what, claim := range map[string]any{
		"the digest alone":            nil,
		"an index of it":              ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{private.Target}},
		"a manifest with its config":  ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer, layer}},
		"a config of unknown type":    ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: odd, Layers: []ocispec.Descriptor{layer, layer}},
		"a config taken for a layer":  ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: asLayer, Layers: []ocispec.Descriptor{layer}},
		"an index of such a manifest": nil, // see below
	} {
		t.Run(what, func(t *testing.T) {
			served := map[digest.Digest][]byte{layer.Digest: junk}
			top := ocispec.Descriptor{MediaType: private.Target.MediaType, Digest: private.Target.Digest, Size: private.Target.Size}
			add := func(document any) ocispec.Descriptor {
				b, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(b), Size: int64(len(b))}
				if _, ok := document.(ocispec.Index); ok {
					desc.MediaType = ocispec.MediaTypeImageIndex
				}
				served[desc.Digest] = b
				return desc
			}
			switch {
			case claim != nil:
				top = add(claim)
			case what == "an index of such a manifest":
				inner := add(ocispec.Manifest{Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer, layer}})
				top = add(ocispec.Index{Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{inner}})
			}
			evil := resolvertest.New(t)
			name := fmt.Sprintf("evil%s.test", evil.Host()[strings.LastIndex(evil.Host(), ":")+1:])
			evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { impose(w, r, top, served) })
			d.origin(name, evil)
			for _, ref := range []string{name + "/x:1", name + "/x@" + top.Digest.String()} {
				for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
					if id, err := d.pull(ref, hint("policy", policy)); err == nil {
						t.Errorf("%s by %s gives %s", ref, policy, id)
					}
				}
				if _, ok := d.record(ref); ok {
					t.Errorf("there is a record of %s", ref)
				}
			}
		})
	}
	_ = s.ask(alice, "Never", s.ref(":1"), "Present")
}

// impose answers as a registry does that has the top and what is served.
func impose(w http.ResponseWriter, r *http.Request, top ocispec.Descriptor, served map[digest.Digest][]byte) {
	object := digest.Digest(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
	if object.Validate() != nil {
		object = top.Digest
	}
	body, ok := served[object]
	if r.Method == http.MethodHead && object == top.Digest {
		w.Header().Set("Docker-Content-Digest", top.Digest.String())
		w.Header().Set("Content-Type", top.MediaType)
		w.Header().Set("Content-Length", fmt.Sprint(top.Size))
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	if object == top.Digest {
		w.Header().Set("Content-Type", top.MediaType)
	}
	_, _ = w.Write(body)
}

// TestAccessTwoRepositories holds that a registry that has an image may give it
// under several names, without a layer being downloaded twice.
func TestAccessTwoRepositories(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(d)
	one, two := g.scene(t, d, "private/one"), g.scene(t, d, "private/two")
	one.push("1", image(1))
	two.push("1", image(1))
	_ = one.ask(alice, "Always", one.ref(":1"), "Pulled")
	_ = two.ask(alice, "Always", two.ref(":1"), "Pulled")
	want(t, "blobs for the second name", g.Count(resolvertest.Of("GET", resolvertest.Blobs)), 1)
}
