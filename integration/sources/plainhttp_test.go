// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// servePlain serves blobs by plain HTTP, at the port of that.
func servePlain(t *testing.T, host string, blobs map[string][]byte) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host+":80")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(blobs[r.URL.Path])
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

// withURLs returns the image with layers that name URLs which end with a path, and what is there.
func withURLs(t *testing.T, img v1.Image, roots ...string) (named v1.Image, blobs map[string][]byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	layers, err := img.Layers()
	must(err)
	named, blobs = empty.Image, map[string][]byte{}
	for i, layer := range layers {
		path := fmt.Sprintf("/%d", i)
		r, err := layer.Compressed()
		must(err)
		blobs[path], err = io.ReadAll(r)
		must(err)
		var urls []string
		for _, root := range roots {
			urls = append(urls, root+path)
		}
		named, err = mutate.Append(named, mutate.Addendum{Layer: layer, MediaType: types.DockerLayer, URLs: urls})
		must(err)
	}
	config, err := img.ConfigFile()
	must(err)
	named, err = mutate.ConfigFile(named, config)
	must(err)
	return named, blobs
}

// TestAllowedSourcesOfPlainHTTP has layers come by URLs of plain HTTP from a host that a rule allows, which
// means its port of HTTPS: anybody on the way, or anything else on that machine, may have answered.
func TestAllowedSourcesOfPlainHTTP(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.78" // of no other test
	img, blobs := withURLs(t, nodetest.Image(2), "http://"+host)
	servePlain(t, host, blobs)
	for what, pull := range map[string]func(c *chained, ref string){
		"pulled by a pod": func(c *chained, ref string) { c.MustPull(ref) },
		"pulled by ctr":   func(c *chained, ref string) { c.Transfer(ref) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wantByPlainHTTP(t, host, img, pull)
		})
	}
}

// TestAllowedSourcesOfRedirectsToPlainHTTP has layers come by plain HTTP from such a host, to which the first of
// their URLs leads by a redirect; the second one is of HTTPS there.
func TestAllowedSourcesOfRedirectsToPlainHTTP(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.79" // of no other test
	tenants := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+host+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(tenants.Close)
	img, blobs := withURLs(t, nodetest.Image(2), tenants.URL, "https://"+host)
	servePlain(t, host, blobs)
	for what, pull := range map[string]func(c *chained, ref string){
		"pulled by a pod": func(c *chained, ref string) { c.MustPull(ref) },
		"pulled by a pod under Observe": func(c *chained, ref string) {
			c.WriteRules("10.toml", "[[rule]]\nimages = [\"bad.test/**\"]\nmode = \"Observe\"\n")
			c.MustPull(ref)
		},
		"pulled by ctr": func(c *chained, ref string) { c.Transfer(ref) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			wantByPlainHTTP(t, host, img, pull)
		})
	}
}

// wantByPlainHTTP pulls an image whose layers come by plain HTTP from a host. Its port is named, and an image
// of the host's by HTTPS is not taken for one with these layers.
func wantByPlainHTTP(t *testing.T, host string, img v1.Image, pull func(c *chained, ref string)) {
	t.Helper()
	c := newChained(t, func(c *chained, ref string) {
		c.PushTo(c.forbidden, "app:1", img)
		pull(c, ref)
		if got := c.Labels(ref)["content-sources"]; !strings.Contains(got, host+":80") {
			t.Errorf("content-sources is %s: without the port of plain HTTP", got)
		}
	})
	c.wantRefused(host)
}
