// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A layer's url has an address with a zone, of which the name that is recorded ends like an allowed
// host: a name is cut after 300 bytes.
func TestURLWithALongZone(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 131)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	a.Must(err)

	const address, allowed = "[::ffff:127.0.0.1%25", ".example.com"
	zone := strings.Repeat("a", 300-len(address)-len(allowed)) + allowed + "x]:" + port
	url := "http://" + strings.Replace(address, "%25", "%2525", 1) + zone + "/layer"
	img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: layer, MediaType: types.OCILayer, URLs: []string{url}})
	a.Must(err)
	a.both("app:1", img)
	a.MustPull(ref)
	t.Logf("content-sources %q", a.Labels(ref)["content-sources"])

	a.allow(a.mirror.Host(), a.Registry.Host(), "*.example.com")
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}
