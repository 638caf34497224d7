// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/pool"
)

// tunnel is a proxy's handler that connects whoever asks with that address.
func tunnel(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		far, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = near.Close() }()
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
	}
}

// serveTLS serves by TLS, or in clear.
func serveTLS(t *testing.T, secured bool, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secured {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// behind returns a transport as those of hosts are, that asks by a proxy.
func behind(t *testing.T, proxy string) http.RoundTripper {
	by, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{
		Proxy: http.ProxyURL(by), TLSHandshakeTimeout: 10 * time.Second, // containerd's
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext:     (&net.Dialer{}).DialContext,
	}
	b := &builder{dialer: &dialer{}, under: map[*http.Client]*http.Transport{}}
	if err := b.adopt(&http.Client{Transport: tr}); err != nil {
		t.Fatal(err)
	}
	p := pool.New(tr)
	t.Cleanup(func() {
		p.CloseIdleConnections()
		b.dialer.close()
	})
	return p
}

// A mirror has 2 s for TLS behind a proxy too, whether that has TLS itself or not, and for that alone.
func TestHandshakeBehindAProxy(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	late := serveTLS(t, true, func(http.ResponseWriter, *http.Request) { time.Sleep(shortHandshake + shortHandshake/4) })
	for name, secured := range map[string]bool{"that is asked in clear": false, "with TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for address, answers := range map[string]bool{silent.Addr().String(): false, late.Listener.Addr().String(): true} {
				proxy := serveTLS(t, secured, tunnel(address))
				req, err := http.NewRequestWithContext(WithShortDial(t.Context()), http.MethodGet, "https://"+address+"/v2/", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				resp, err := behind(t, proxy.URL).RoundTrip(req)
				took := time.Since(began)
				switch {
				case answers && err != nil:
					t.Errorf("a late answer was not waited for: %v", err)
				case answers:
					_ = resp.Body.Close()
				case err == nil || !fault.HandshakeTimedOut(err) || took > 2*shortHandshake:
					t.Errorf("TLS of a host with another behind it was waited for %v: %v", took, err)
				}
			}
		})
	}
}

// A proxy has as long to connect with a host as a dial has, whether it has TLS itself or not, and that alone ends so.
func TestConnectionThatAProxyDoesNotMake(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, secured := range map[string]bool{"that is asked in clear": false, "with TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			proxy := serveTLS(t, secured, func(http.ResponseWriter, *http.Request) { <-end })
			t.Cleanup(func() { close(end) }) // before the proxy is closed
			for kind, with := range map[string]func(context.Context) context.Context{
				"another host can answer": WithShortDial, "one in trouble may": WithShortDialAlone,
			} {
				began := time.Now()
				req, err := http.NewRequestWithContext(with(t.Context()), http.MethodGet, "https://mirror.test/v2/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := behind(t, proxy.URL).RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				if took := time.Since(began); !fault.DialTimedOut(err) || fault.HandshakeTimedOut(err) || took > 2*ShortDial {
					t.Errorf("%s: waited for %v: %v", kind, took, err)
				}
			}
		})
	}
}

// Who joins a request that waits for a proxy's connection is told of it as of a dial, and no more once the request has ended.
func TestDialingByAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		d := NewDialing(func() { told.Add(1) })
		h := &handshakes{dialing: d}
		near, far := net.Pipe()
		defer func() {
			_ = near.Close()
			_ = far.Close()
		}()
		h.on(near)
		h.connecting()
		if time.Sleep(ShortDial + time.Millisecond); !fault.DialTimedOut(d.Late()) || told.Load() != 1 {
			t.Errorf("got %v, told %d times", d.Late(), told.Load())
		}
		if h.connected(); d.Late() != nil {
			t.Errorf("once it is there: %v", d.Late())
		}
		h.connecting()
		d.Done()
		if time.Sleep(2 * SecondDial); d.Late() != nil || told.Load() != 1 {
			t.Errorf("in the end: %v, told %d times", d.Late(), told.Load())
		}
	})
}

// A connection that is past its handshakes is not bounded by those of another one of the request: somebody else
// may be using it.
func TestHandshakesBoundNoOtherConnection(t *testing.T) {
	for _, ahead := range []int{1, 2} {
		h := &handshakes{ahead: ahead, shortTLS: true}
		made := func() *hurriedConn {
			c, other := net.Pipe()
			t.Cleanup(func() {
				_ = c.Close()
				_ = other.Close()
			})
			h.on(c)
			return h.conns[len(h.conns)-1]
		}
		first := made()
		for range ahead {
			if h.begun(); !first.hurried.Load() {
				t.Errorf("a handshake of %d is not bounded", ahead)
			}
			if h.ended(tls.ConnectionState{}, nil); first.hurried.Load() {
				t.Errorf("the bound of a handshake of %d does not end with it", ahead)
			}
		}
		second := made()
		if h.begun(); first.hurried.Load() || !second.hurried.Load() {
			t.Errorf("after %d handshakes: the first is bounded: %v, the second: %v", ahead, first.hurried.Load(), second.hurried.Load())
		}
	}
}
