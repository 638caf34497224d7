// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/pool"
)

const (
	// ShortDial is how long a host with another host behind it gets for the
	// connection, where hosts.toml sets no dial_timeout: it is there to be faster
	// than the next one.
	ShortDial      = time.Second
	shortHandshake = 2 * time.Second // the same for TLS
	// SecondDial is how long it gets when it is asked once more, since nobody else has the content: systems
	// send the first packet of a connection again after 1, 3 and 7 s.
	SecondDial = 8 * time.Second

	// maxIdlePerHost is more than the layers that one pull downloads at a time
	// (max_concurrent_downloads, 3 by default), so that several pulls and checks
	// find their connections again; net/http keeps 2.
	maxIdlePerHost = 16
	maxIdle        = 2 * maxIdlePerHost // of one transport
	// idleTimeout keeps a connection through the pods of a rollout, and is in
	// the range in which registries and balancers close it themselves.
	idleTimeout = 90 * time.Second

	// answerTimeout is containerd's, of hosts, for an answer to begin.
	answerTimeout = 30 * time.Second

	// maxHeader bounds the header of an answer, in bytes, where net/http has 10 MiB: it
	// is kept as a whole, and containerd's parser of challenges takes a time that grows
	// with the square of their length, which no time-out ends. Proxies send 8 KiB.
	maxHeader = 32 << 10
)

// tune makes containerd's transport fit to be shared.
func tune(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = maxIdle, maxIdlePerHost, idleTimeout
	t.MaxResponseHeaderBytes = maxHeader
	t.GetProxyConnectHeader, t.OnProxyConnectResponse = proxyConnects(t.ProxyConnectHeader), proxyConnected
}

// Bounded returns a transport as net/http's own is, that takes no more from those whom it asks
// than those of hosts do, and waits no longer for an answer. It asks each time over a new connection by
// HTTP/1.1, which ends with the answer: nothing is left of those whom it has asked, however many they are, and who
// reads no more from a connection of HTTP/2 would hold up those that read from it.
func Bounded() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if own, ok := http.DefaultTransport.(*http.Transport); ok { // nobody has replaced it
		t = own.Clone()
	}
	tune(t)
	t.ResponseHeaderTimeout = answerTimeout
	t.DisableKeepAlives = true
	t.ForceAttemptHTTP2, t.Protocols, t.TLSNextProto = false, nil, map[string]func(string, *tls.Conn) http.RoundTripper{}
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil // net/http may have added HTTP/2
	}
	return t
}

// proxyConnects returns the hook that is called before a proxy is asked to connect with a host, by that header.
func proxyConnects(header http.Header) func(context.Context, *url.URL, string) (http.Header, error) {
	return func(ctx context.Context, _ *url.URL, _ string) (http.Header, error) {
		if h, watched := ctx.Value(shortKey{}).(*handshakes); watched {
			h.connecting()
		}
		return header, nil
	}
}

// proxyConnected is the hook for the proxy's answer. Some do not let a request through.
func proxyConnected(ctx context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if h, watched := ctx.Value(shortKey{}).(*handshakes); watched {
		h.connected()
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &fault.Fault{Class: failure.Unreachable, Err: fmt.Errorf("proxy %s refuses: %s", proxy.Host, fault.StatusText(resp.StatusCode))}
}

// unshared returns an http.RoundTripper as t is that makes a new connection for each request: a
// connection that hangs says nothing about its host.
func unshared(t *http.Transport) http.RoundTripper {
	t = t.Clone()
	t.DisableKeepAlives = true
	return verifying{t}
}

// verifying has dials hear whose certificates are verified.
type verifying struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (v verifying) RoundTrip(req *http.Request) (*http.Response, error) {
	return v.Transport.RoundTrip(pool.WithVerified(req, v.Transport))
}
