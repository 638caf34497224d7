// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// takes has the registry serve a document by a tag, to whom it gives a token, as one that has taken it without looking for what it names.
func (s *scene) takes(tag string, document []byte) {
	d := digest.FromBytes(document)
	s.g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		at := "/v2/" + s.repo + "/manifests/"
		if r.URL.Path != at+tag && r.URL.Path != at+d.String() || r.Header.Get("Authorization") == "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", d.String())
		w.Header().Set("Content-Length", fmt.Sprint(len(document)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(document)
		}
	})
}

// naming pushes the config alone, and returns a manifest that has it, by that type, and the layers of an image, which the repository does not have.
func (s *scene) naming(layersOf v1.Image, config *v1.ConfigFile, says, configType string) []byte {
	s.T.Helper()
	img := withOtherLayers(s.Node, config)
	s.push("config", img)
	own, err := img.Manifest()
	s.Must(err)
	m, err := layersOf.Manifest()
	s.Must(err)
	document, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": says, "layers": m.Layers,
		"config": map[string]any{"mediaType": configType, "digest": own.Config.Digest, "size": own.Config.Size},
	})
	s.Must(err)
	return document
}

// TestLayersThatARepositoryDoesNotHave has a tenant who knows the digests of a private image name its layers in a manifest of their
// repository, at an allowed registry that takes it without having them there. Some registries look for the layers of no manifest whose
// config is of another type than OCI's, which is an artifact's to them; containerd takes it for an image's.
func TestLayersThatARepositoryDoesNotHave(t *testing.T) {
	t.Parallel()
	const docker = "application/vnd.docker.container.image.v1+json"
	for what, tc := range map[string]struct {
		config, says, discard string
		observed              bool // a pod has pulled it before there was a list
	}{
		"an image":                     {ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageManifest, "false", false},
		"Docker's config":              {docker, ocispec.MediaTypeImageManifest, "false", false},
		"Docker's config, discarded":   {docker, ocispec.MediaTypeImageManifest, "true", false},
		"Docker's config, observed":    {docker, ocispec.MediaTypeImageManifest, "true", true},
		"Docker's":                     {docker, "application/vnd.docker.distribution.manifest.v2+json", "false", true},
		"a config that is no one's":    {"application/vnd.example.config", ocispec.MediaTypeImageManifest, "false", false},
		"a config of octets, observed": {"application/octet-stream", ocispec.MediaTypeImageManifest, "false", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n, g, private, config := privateUnderAList(t, tc.discard)
			evil := g.scene(t, n, "public/eve")
			evil.takes("1", evil.naming(private, config, tc.says, tc.config))
			if tc.observed {
				n.WriteRules("05.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"observed\"]\nmode = \"Observe\"\n")
				_, err := n.Pull(evil.ref(":1"), eve.secret(), node.Pod("observed", "trial"))
				n.Must(err)
			}
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if id, err := n.Pull(evil.ref(":1"), eve.secret(), node.Hint("policy", policy)); err == nil {
					t.Errorf("%s: eve has the private layers, which her repository does not have: %s, %v", policy, id, n.Labels(evil.ref(":1")))
				}
			}
		})
	}
}

// TestLayersThatARepositoryHas pulls images on a base that the node has from another repository. Under a list of sources the repository is
// asked for the last byte of each layer of it, once; an image from before there was a list at its next use, which fails until that can be.
func TestLayersThatARepositoryHas(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	list := fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", g.Host())
	base := nodetest.Image(1)
	on := func(seed int64) *scene {
		img, err := mutate.AppendLayers(base, nodetest.Layer(t, seed))
		n.Must(err)
		s := g.scene(t, n, fmt.Sprintf("public/app%d", seed))
		s.digest = s.push("1", img)
		return s
	}
	layers, err := base.Layers()
	n.Must(err)
	asked := func(s *scene) (n int) {
		for _, l := range layers {
			d, err := l.Digest()
			s.Must(err)
			n += g.Count(func(r resolvertest.Request) bool {
				return strings.HasSuffix(r.Path, s.repo+"/blobs/"+d.String()) && r.Status == http.StatusPartialContent
			})
		}
		return n
	}
	wantAsked := func(what string, s *scene, want int) {
		t.Helper()
		if got := asked(s); got != want || want == 0 && g.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 2 { // config and layer
			t.Errorf("%s: it was asked for parts of %d layers, want %d: %v", what, got, want, g.Requests())
		}
		if label := s.Labels(s.ref(":1")); (label["has-layers"] == "true") != (want > 0) || label["compared"] != "" || label["unknown-sources"] != "" {
			t.Errorf("%s: labels are %v", what, label)
		}
	}
	first := g.scene(t, n, "public/base")
	first.push("1", base)
	first.wantPull(alice, "Always", first.ref(":1"), "Pulled")
	nodetest.Want(t, "the record of the base", n.Labels(first.ref(":1"))["has-layers"], "true")

	before := on(7)
	before.wantPull(alice, "Always", before.ref(":1"), "Pulled")
	wantAsked("without a list", before, 0)
	n.WriteRules("10.toml", list)
	s := on(8)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	wantAsked("under a list", s, len(layers))
	s.wantPull(alice, "Always", s.ref(":1"), "Unchanged")
	nodetest.Want(t, "parts asked for again", asked(s), 0)

	g.Refuse()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		before.wantPull(alice, policy, before.ref(":1"), "Failed")
	}
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "UsedCached")
	n.Must(g.Restore())
	first.wantPull(alice, "IfNotPresent", first.ref(":1"), "Present")
	before.wantPull(alice, "IfNotPresent", before.ref(":1"), "Pulled")
	wantAsked("from before there was a list", before, len(layers))
	before.wantPull(alice, "IfNotPresent", before.ref(":1"), "Present")
	before.wantPull(alice, "IfNotPresent", before.digest, "Present")
}
