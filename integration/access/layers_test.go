// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

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
