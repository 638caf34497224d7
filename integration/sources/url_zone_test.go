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

// As TestURLWithAnEmptyPort, by an address with a zone that no header can have: net/http sends an
// empty Host.
func TestURLWithAZone(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]bool{"by a client": false, "by a pod under Observe": true} {
		t.Run(name, func(t *testing.T) { urlWithAZone(t, observed) })
	}
}

func urlWithAZone(t *testing.T, observed bool) {
	t.Helper()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 131)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	a.Must(err)

	urls := []string{a.mirror.URL() + "/nothing/here", "http://[::ffff:127.0.0.1%2525%22]:" + port + "/layer"}
	img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: layer, MediaType: types.OCILayer, URLs: urls})
	a.Must(err)
	a.both("app:1", img)
	if observed {
		a.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nmode = \"Observe\"\n")
		mark := a.Mark()
		a.MustPull(ref)
		a.Told(mark, ref)
	} else {
		a.Transfer(ref)
	}
	if labels := a.Labels(ref); !strings.Contains(labels["content-sources"], ":"+port) {
		t.Errorf("pull-source %q, content-sources %q, unknown-sources %q", labels["pull-source"], labels["content-sources"], labels["unknown-sources"])
	}

	a.allow(a.mirror.Host(), a.Registry.Host())
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}
