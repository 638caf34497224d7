// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessOfKnownLayers has a tenant who knows the digests of a private image's
// layers put them into an image of a registry of their own, which does not have them.
// Content is shared by digest, so the node has them already: what keeps that
// registry out is a rule that names the allowed sources.
func TestAccessOfKnownLayers(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	private := nodetest.Image(1)
	s.push("1", private)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")

	own := resolvertest.New(t)
	n.Serve("eve.test", own)
	config, err := private.ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	config.Author = "eve"
	img, err := mutate.ConfigFile(private, config)
	n.Must(err)
	n.PushTo(own, "app:1", img)
	layers, err := private.Layers()
	n.Must(err)
	own.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		for _, l := range layers {
			if d, err := l.Digest(); err == nil && strings.HasSuffix(r.URL.Path, d.String()) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nallowed_sources = [\""+g.Host()+"\"]\n")
	n.MustFail("eve.test/app:1", []string{"allowed_sources", own.Host()})
	n.RemoveRules("10.toml")
	n.MustPull("eve.test/app:1")
	s.wantPull(nobody, "Never", s.ref(":1"), "Failed") // the image itself stays alice's
}

// privateUnderAList starts a node with a private image of alice's from the one registry that a rule allows for all images, and returns a
// config of eve's that names its layers.
func privateUnderAList(t *testing.T, discard string) (n *nodetest.Node, g *guarded, private v1.Image, config *v1.ConfigFile) {
	t.Helper()
	n = nodetest.Start(t, nodetest.CRIImages("discard_unpacked_layers = "+discard))
	g = newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", g.Host()))
	s := g.scene(t, n, "private/app")
	private = nodetest.Image(1)
	s.push("1", private)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	config, err := private.ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	config.Author, config.History = "eve", nil
	return n, g, private, config
}

// withOtherLayers returns an image of that config whose manifest has others in the place of the layers that it names.
func withOtherLayers(n *nodetest.Node, config *v1.ConfigFile) v1.Image {
	n.T.Helper()
	img := empty.Image
	var err error
	for i := range config.RootFS.DiffIDs {
		img, err = mutate.AppendLayers(img, nodetest.Layer(n.T, int64(7+i)))
		n.Must(err)
	}
	img, err = mutate.ConfigFile(img, config)
	n.Must(err)
	return img
}

// TestLayersNamedByAConfig has a tenant who knows what the layers of a private image unpack to push an image into a repository of
// their own in the registry that a rule allows for all images, from which the private one came as well. Its config names those
// layers, and its manifest others, which the registry has.
func TestLayersNamedByAConfig(t *testing.T) {
	t.Parallel()
	for _, discard := range []string{"false", "true"} {
		t.Run("discard_unpacked_layers="+discard, func(t *testing.T) {
			t.Parallel()
			n, g, private, config := privateUnderAList(t, discard)
			img := withOtherLayers(n, config)
			evil := g.scene(t, n, "public/eve")
			evil.push("1", img)
			if id, err := n.Pull(evil.ref(":1"), eve.secret()); err == nil || !strings.Contains(err.Error(), "unpack") {
				t.Errorf("eve's pull: %s, %v", id, err)
			}

			// Who has the very layers shares them once the registry has shown that, and nothing is compared.
			config = config.DeepCopy()
			config.Author = "bob"
			img, err := mutate.ConfigFile(private, config)
			n.Must(err)
			other := g.scene(t, n, "public/bob")
			other.push("1", img)
			g.Forget()
			other.wantPull(eve, "Always", other.ref(":1"), "Pulled")
			layers, err := private.Layers()
			n.Must(err)
			for _, l := range layers {
				d, err := l.Digest()
				n.Must(err)
				of := func(status int) int {
					return g.Count(func(r resolvertest.Request) bool { return strings.HasSuffix(r.Path, d.String()) && r.Status == status })
				}
				if all, parts := of(http.StatusOK), of(http.StatusPartialContent); all > 0 || parts != 1 {
					t.Errorf("the registry was asked %d times for the layer %s, and %d times for a part of it", all, d, parts)
				}
			}
		})
	}
}
