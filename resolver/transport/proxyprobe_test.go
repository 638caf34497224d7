// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const stepTime = 600 * time.Millisecond // of each of three

type lateListener struct{ net.Listener }

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: c}, nil
}

type lateConn struct {
	net.Conn
	once sync.Once
}

func (c *lateConn) Read(p []byte) (int, error) {
	c.once.Do(func() { time.Sleep(stepTime) }) // before the handshake
	return c.Conn.Read(p)
}

// A registry behind a proxy takes 0.6 s to accept the connection (the proxy answers CONNECT then), 0.6 s for TLS and 0.6 s
// for its answer: in no step is it silent for a second.
func TestProbeByAProxy(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(stepTime) }))
	server.Listener = lateListener{server.Listener}
	server.StartTLS()
	defer server.Close()
	to := server.Listener.Addr().String()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(stepTime) // it connects to the registry
		far, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		near, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer near.Close()
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		_, _ = io.Copy(near, far)
	}))
	defer proxy.Close()
	by, _ := url.Parse(proxy.URL)
	for name, via := range map[string]func(*http.Request) (*url.URL, error){"directly": nil, "by the proxy": http.ProxyURL(by)} {
		t.Run(name, func(t *testing.T) {
			c := config(nil)
			c.Root = "https://" + to + "/v2/"
			c.Probe = &http.Transport{Proxy: via, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			if v := newProber(c).registry(t.Context()); v.Class != failure.None {
				t.Errorf("got %+v", v)
			}
		})
	}
}
