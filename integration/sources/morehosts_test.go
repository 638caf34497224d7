// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestFallbackWhereALayerIsFromMoreHosts holds that pods under a list of sources fall back to the image that they
// have where a layer of the next one has come to another tenant by urls of more hosts than a label holds,
// of which the first are spelled as the allowed one.
func TestFallbackWhereALayerIsFromMoreHosts(t *testing.T) {
	t.Parallel()
	m := newMirrored(t, nodetest.Section(nodetest.IfDigestChanged))
	m.withoutMirror()
	others := resolvertest.New(t)
	m.Serve("others.test", others)
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
	tag := nodetest.Named("app:1")
	m.Push("app:1", nodetest.Image(7))
	m.MustPull(tag, strict)
	v1 := m.Target(tag)

	layer, data := someLayer(t, 500)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(evil.Close)
	host, port, _ := strings.Cut(m.Registry.Host(), ":")
	long := func(zeros int) string {
		return fmt.Sprintf("http://%s:%s%s/none", host, strings.Repeat("0", zeros), port)
	}
	m.PushTo(others, "base:1", nodetest.WithLayerAt(t, nodetest.Image(9), layer, long(260), long(261), evil.URL+"/layer"))
	m.MustPull("others.test/base:1", free)

	next, err := mutate.AppendLayers(nodetest.Image(8), layer)
	m.Must(err)
	m.Push("app:1", next)
	dgst, err := layer.Digest()
	m.Must(err)
	t.Cleanup(m.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, dgst.String()) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}))
	m.wantStrict(tag, "UsedCached (unavailable)")
	nodetest.Want(t, "the tag keeps its image", m.Target(tag), v1)
}
