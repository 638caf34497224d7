// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// slowly has a registry send a layer in eight parts, 250 ms apart, whatever part of it the request is for; the first time it breaks off after six, if it is to.
func slowly(n *nodetest.Node, from *resolvertest.Registry, layer v1.Layer, breaks bool) {
	n.T.Helper()
	d, err := layer.Digest()
	n.Must(err)
	r, err := layer.Compressed()
	n.Must(err)
	blob, err := io.ReadAll(r)
	n.Must(err)
	var asked atomic.Int32
	from.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) {
			next.ServeHTTP(w, r)
			return
		}
		first := asked.Add(1) == 1
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		part := len(blob)/8 + 1
		for i := 0; i < len(blob); i += part {
			if breaks && first && i >= 6*part {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(blob[i:min(i+part, len(blob))])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(250 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	})
}

// onABase pushes an image on a base that the node has by then, and returns it with the lowest layer of the base.
func onABase(n *nodetest.Node, registry *resolvertest.Registry) (v1.Image, v1.Layer) {
	n.T.Helper()
	base := nodetest.Image(1)
	n.PushTo(registry, "base:1", base)
	n.MustPull("r.test/base:1")
	img, err := mutate.AppendLayers(base, nodetest.Layer(n.T, 8))
	n.Must(err)
	n.PushTo(registry, "app:1", img)
	layers, err := base.Layers()
	n.Must(err)
	return img, layers[0]
}

// TestLayersShownByARegistryWithoutRanges has a registry that knows no ranges send all of a layer, slowly, where it is asked for the last byte.
// It is not given up as long as bytes come, as in a pull. Pull-through caches do so with a layer that they do not have yet.
func TestLayersShownByARegistryWithoutRanges(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.CRIImages(`image_pull_progress_timeout = "1s"`))
	registry := resolvertest.New(t)
	n.Serve("r.test", registry)
	_, layer := onABase(n, registry)
	slowly(n, registry, layer, false)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/app\"]\nallowed_sources = [%q]\n", registry.Host()))
	n.MustPull("r.test/app:1")
}

// TestComparisonWithARegistryWithoutRanges has the registry break a layer off in a comparison, and send it from its start when it is asked for
// the rest. Those bytes count, as in a pull.
func TestComparisonWithARegistryWithoutRanges(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.CRIImages(`image_pull_progress_timeout = "1s"`))
	img := nodetest.Image(1)
	registry, mirror := resolvertest.New(t), resolvertest.New(t)
	n.PushTo(registry, "app:1", img)
	n.PushTo(mirror, "app:1", img)
	n.Serve("r.test", registry, mirror)
	n.MustPull("r.test/app:1")
	layers, err := img.Layers()
	n.Must(err)
	slowly(n, registry, layers[0], true)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/app\"]\nallowed_sources = [%q]\n", registry.Host()))
	n.MustPull("r.test/app:1", node.Hint("policy", "IfDigestChanged"))
}

// TestLayersShownByARegistryThatRefusesParts has a registry that refuses to give a part of a layer give all of it, also behind a mirror that does
// not have the layer, whose answer is the one that containerd tells of.
func TestLayersShownByARegistryThatRefusesParts(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct{ mirror, registry int }{ // how they answer; 0 = there is no mirror
		"416 alone": {0, 416}, "400 alone": {0, 400}, "501 alone": {0, 501}, "405 alone": {0, 405},
		"416 behind a mirror with 404": {404, 416}, "416 behind a mirror with 403": {403, 416}, "400 behind a mirror with 503": {503, 400},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t)
			registry, mirror := resolvertest.New(t), resolvertest.New(t)
			n.Serve("r.test", registry)
			img, layer := onABase(n, registry)
			d, err := layer.Digest()
			n.Must(err)
			answers := func(code int, parts bool) func(http.ResponseWriter, *http.Request, http.Handler) {
				return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if !strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) || parts && r.Header.Get("Range") == "" {
						next.ServeHTTP(w, r)
						return
					}
					w.WriteHeader(code)
				}
			}
			registry.Script(answers(tc.registry, true))
			if tc.mirror != 0 {
				n.PushTo(mirror, "app:1", img)
				mirror.Script(answers(tc.mirror, false))
				n.Serve("r.test", registry, mirror)
			}
			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/app\"]\nallowed_sources = [%q, %q]\n", registry.Host(), mirror.Host()))
			n.MustPull("r.test/app:1")
		})
	}
}
