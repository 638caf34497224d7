// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// network is one in which each name with port 443 is a server of HTTPS, and each other a server of HTTP.
// proxy.test is a proxy by both.
type network struct {
	plain, secure *httptest.Server
	proxy         *httptest.Server // by HTTPS; net/http does not speak HTTP/2 with it
	tunnels       sync.WaitGroup
}

func newNetwork(t *testing.T, http2 bool) *network {
	t.Helper()
	n := &network{}
	n.plain, n.proxy, n.secure = httptest.NewServer(n), httptest.NewTLSServer(n), httptest.NewUnstartedServer(n)
	n.secure.EnableHTTP2 = http2
	n.secure.StartTLS()
	t.Cleanup(func() {
		for _, server := range []*httptest.Server{n.plain, n.proxy, n.secure} {
			server.Close()
		}
		n.tunnels.Wait()
	})
	return n
}

// ServeHTTP implements http.Handler.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if to := r.URL.Query().Get("to"); to != "" {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		return
	}
	if r.Method != http.MethodConnect {
		return
	}
	there, err := n.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
		n.tunnels.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
		})
	}
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	to := n.plain
	switch {
	case address == "proxy.test:443":
		to = n.proxy
	case strings.HasSuffix(address, ":443"):
		to = n.secure
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to.Listener.Addr().String())
}

// client returns one with that proxy; "" = none.
func (n *network) client(t *testing.T, proxy string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: n.dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: n.secure.EnableHTTP2}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		tr.Proxy = http.ProxyURL(u)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// knownHosts are those of TestLastHostByPlainHTTP.
var knownHosts = []hosts.Alias{
	{Scheme: "https", Host: "mirror.test", Name: "mirror.test"},
	{Scheme: "https", Host: "192.0.2.1", Name: "192.0.2.1"},
	{Scheme: "https", Host: "dot.test.", Name: "dot.test."},
	{Scheme: "https", Host: "bücher.test", Name: "bücher.test"},
	{Scheme: "https", Host: "port.test:443", Name: "port.test:443"},
	{Host: "plain.test", Name: "plain.test"}, // which hosts.toml has with http://
	{Scheme: "https", Host: "tenant.test", Name: "tenant.test"},
	{Scheme: "https", Host: "both.test", Name: "both.test"},
	{Scheme: "http", Host: "both.test", Name: "both.test:80"},
	{Scheme: "http", Host: "cdn.test", Name: "cdn.test:80"},
}

// The requests show whether a host was asked by HTTPS, also where they go by a proxy or on connections that
// are there already.
func TestLastHostByPlainHTTP(t *testing.T) {
	for asked, want := range map[string]string{
		"https://mirror.test/": "mirror.test",
		"http://mirror.test/":  "mirror.test:80",
		"https://192.0.2.1/":   "192.0.2.1",
		"http://192.0.2.1/":    "192.0.2.1:80",
		"https://dot.test./":   "dot.test.",
		"https://bücher.test/": "bücher.test",

		"https://port.test:443/": "port.test:443",
		"http://port.test:443/":  "***", // its name would be that of HTTPS
		"http://plain.test/":     "plain.test",
		"https://plain.test/":    "plain.test",
		"http://both.test/":      "both.test:80",
		"https://both.test/":     "both.test",

		"https://tenant.test/?to=http://mirror.test/":  "mirror.test:80",
		"https://tenant.test/?to=https://mirror.test/": "mirror.test",
		"https://tenant.test/?to=http://other.test/":   "tenant.test",
		"http://cdn.test/?to=https://cdn.test/":        "cdn.test",
		"http://plain.test/?to=https://plain.test/":    "plain.test",
	} {
		for _, proxy := range []string{"", "http://proxy.test", "https://proxy.test"} {
			if strings.HasPrefix(asked, "http://port.test") && proxy == "" {
				continue // nobody speaks plain HTTP there
			}
			for _, http2 := range []bool{false, true} {
				client := newNetwork(t, http2).client(t, proxy)
				for range 2 { // the second on the connections of the first
					last := &lastHost{hosts: knownHosts, last: &hosts.Alias{Name: "before"}}
					get(httptrace.WithClientTrace(t.Context(), last.trace()), t, client, asked)
					if got := last.get().Name; got != want {
						t.Errorf("%s by proxy %q, HTTP/2 %v: asked %s, want %s", asked, proxy, http2, got, want)
					}
				}
			}
		}
	}
}

func get(ctx context.Context, t *testing.T, client *http.Client, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// Urls are followed as they are: a signature may be one of the host, which has no port then.
func TestNamedURLs(t *testing.T) {
	urls := []string{"http://a.test/x?sig=1", "HTTP://b.test:/%2Fy", "https://c.test/", "http://d.test:443/", "https://[fe80::1%25eth0]/"}
	kept, list := namedURLs(urls)
	if diff := cmp.Diff(urls[:3], kept); diff != "" {
		t.Errorf("urls (-want +got):\n%s", diff)
	}
	want := []hosts.Alias{
		{Scheme: "http", Host: "a.test", Name: "a.test:80"},
		{Scheme: "http", Host: "b.test:", Name: "b.test:80"},
		{Scheme: "https", Host: "c.test", Name: "c.test"},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}
