// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestWays holds that HTTP/2 goes the ways that a node's configuration says: through a
// proxy, and with the client certificate of hosts.toml.
func TestWays(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		option   resolvertest.Option
		proxied  bool
		client   bool
		tls      bool // to the proxy, which offers HTTP/2
		protocol string
	}{
		"proxy":                        {resolvertest.WithTLS(), true, false, false, "HTTP/2.0"},
		"client certificate":           {resolvertest.WithClientCertificates(), false, true, false, "HTTP/2.0"},
		"client certificate and proxy": {resolvertest.WithClientCertificates(), true, true, false, "HTTP/2.0"},
		// net/http has no tunnels by HTTP/2, though it offers that to such a proxy.
		"proxy with HTTP/2": {resolvertest.WithTLS(), true, false, true, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := resolvertest.New(t, way.option)
			proxy := newConnectProxy(t, registry.Host(), way.tls)
			// net/http never asks a proxy for what is on loopback.
			n := nodetest.NewWith(t, registry, patient, nodetest.Env("HTTPS_PROXY="+proxy.URL, "https_proxy=", "NO_PROXY=", "no_proxy="))
			lines := n.Server(registry)
			if way.proxied {
				lines = strings.ReplaceAll(lines, registry.URL(), "https://registry.test")
			}
			if way.tls {
				trusted := n.Path("files", "proxy.pem")
				n.Write(trusted, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})))
				before, own, _ := strings.Cut(lines, "ca = ")
				lines = before + fmt.Sprintf("ca = [%q, %s]\n", trusted, strings.TrimSpace(own))
			}
			if way.client {
				cert, key := n.Path("files", "client.pem"), n.Path("files", "client.key")
				n.Write(cert, string(registry.ClientCertPEM()))
				n.Write(key, string(registry.ClientKeyPEM()))
				lines += fmt.Sprintf("client = [[%q, %q]]\n", cert, key)
			}
			n.WriteHosts("registry.test", lines)
			ref := nodetest.Named("app:1")
			for i, outcome := range []string{"Pulled", "Unchanged", "Pulled"} {
				if outcome == "Pulled" {
					n.Push("app:1", nodetest.Image(int64(i)))
				}
				mark := n.Mark()
				n.MustPull(ref)
				nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, outcome)
			}
			for _, r := range registry.Requests() {
				if want := map[bool]string{true: "HTTP/1.1", false: way.protocol}[resolvertest.Probe(r)]; r.Proto != want {
					t.Errorf("%s %s by %s, want %s", r.Method, r.Path, r.Proto, want)
				}
			}
			nodetest.Want(t, "the proxy is used", proxy.used(), way.proxied)
		})
	}
}

// TestCertificateIsNotCoalesced holds that a registry's name whose hosts.toml has no client
// certificate never has the connections of another whose hosts.toml has one, though both
// lead to the same address.
func TestCertificateIsNotCoalesced(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithClientCertificates()), patient)
	cert, key := n.Path("files", "client.pem"), n.Path("files", "client.key")
	n.Write(cert, string(n.Registry.ClientCertPEM()))
	n.Write(key, string(n.Registry.ClientKeyPEM()))
	without := n.Server(n.Registry)
	n.WriteHosts("registry.test", without+fmt.Sprintf("client = [[%q, %q]]\n", cert, key))
	n.WriteHosts("other.test", without)
	n.Push("app:1", nodetest.Image(1))
	for range 2 {
		n.MustPull(nodetest.Named("app:1"))
		n.MustFail("other.test/app:1", []string{"certificate"})
	}
}

// connectProxy is a proxy that leads everybody who asks for registry.test to one address.
type connectProxy struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string // for which addresses
}

func newConnectProxy(t *testing.T, target string, tls bool) *connectProxy {
	t.Helper()
	p := &connectProxy{}
	var tunnels sync.WaitGroup
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.Host)
		p.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != "registry.test:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		tunnels.Add(1)
		defer tunnels.Done()
		tunnel(t, w, target)
	}))
	p.EnableHTTP2, p.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	if tls {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() {
		p.Close()
		tunnels.Wait()
	})
	return p
}

// used reports whether somebody has asked for the registry, and nobody for anything else.
func (p *connectProxy) used() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, asked := range p.asked {
		if asked != "CONNECT registry.test:443" {
			return false
		}
	}
	return len(p.asked) > 0
}

// tunnel connects a client with an address, until either ends.
func tunnel(t *testing.T, w http.ResponseWriter, target string) {
	server, err := new(net.Dialer).DialContext(t.Context(), "tcp", target)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = server.Close()
		t.Error(err)
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
}
