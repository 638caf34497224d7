// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A layer names a url at the mirror, which has nothing there, and two by addresses with zones: one that no
// header can have, so that net/http sends an empty Host, and one so long that its name would be cut to
// that of an allowed host. Nobody follows these: the layer, too, is the mirror's.
func TestURLsWithZones(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"a pod", "a pod under Observe", "a client"} {
		t.Run("by "+by, func(t *testing.T) { urlsWithZones(t, by) })
	}
}

func urlsWithZones(t *testing.T, by string) {
	t.Helper()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 131)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	a.Must(err)

	const address, allowed = "[::ffff:127.0.0.1%25", ".example.com"
	urls := []string{a.mirror.URL() + "/nothing/here"}
	for _, zone := range []string{"%22", strings.Repeat("a", 300-len(address)-len(allowed)) + allowed + "x"} {
		urls = append(urls, "http://"+strings.Replace(address, "%25", "%2525", 1)+zone+"]:"+port+"/layer")
	}
	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, urls...)
	a.both("app:1", img)
	switch by {
	case "a pod":
		a.MustPull(ref)
	case "a pod under Observe":
		a.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nmode = \"Observe\"\n")
		mark := a.Mark()
		a.MustPull(ref)
		a.Told(mark, ref)
	default:
		a.Transfer(ref)
	}
	nodetest.Want(t, "requests by the urls", asked.Load(), 0)
	labels := a.Labels(ref)
	nodetest.Want(t, "pull-source", labels["pull-source"], a.mirror.Host()+"/app:1")
	nodetest.Want(t, "other sources", labels["content-sources"]+labels["unknown-sources"], "")
}
