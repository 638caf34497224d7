// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A layer names two urls: one at the mirror, which has nothing there, and one with an empty port, by
// which net/http asks in another spelling. The pull of a client records the host that served it, and
// not the mirror.
func TestURLWithAnEmptyPort(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]bool{"by a client": false, "by a pod under Observe": true} {
		t.Run(name, func(t *testing.T) { urlWithAnEmptyPort(t, observed) })
	}
}

func urlWithAnEmptyPort(t *testing.T, observed bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.77:80")
	if err != nil {
		t.Fatal(err)
	}
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 131)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)

	urls := []string{a.mirror.URL() + "/nothing/here", "http://127.0.0.77:/layer"}
	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, urls...)
	a.both("app:1", img)
	if observed {
		a.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nmode = \"Observe\"\n")
		mark := a.Mark()
		a.MustPull(ref)
		a.Told(mark, ref)
	} else {
		a.Transfer(ref)
	}
	if labels := a.Labels(ref); !strings.Contains(labels["content-sources"], "127.0.0.77") {
		t.Errorf("pull-source %q, content-sources %q, unknown-sources %q", labels["pull-source"], labels["content-sources"], labels["unknown-sources"])
	}

	a.allow(a.mirror.Host(), a.Registry.Host())
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}
