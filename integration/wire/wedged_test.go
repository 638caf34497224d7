// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// wedging starts a registry that wants a password, denies that it has an image, and then reads
// no more of its HTTP/2 connection, but goes on to say something. It returns its address.
func wedging(t *testing.T) (address string) {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	certificates := trusted.TLS.Certificates
	trusted.Close()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		})
	}}
	l, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var taken atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				c := tls.Server(conn, &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
				if taken.Load() || c.Handshake() != nil || c.ConnectionState().NegotiatedProtocol != "h2" || !taken.CompareAndSwap(false, true) {
					return
				}
				wedge(t, c, stop)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(stop)
		all.Wait()
	})
	return l.Addr().String()
}

func wedge(t *testing.T, c net.Conn, stop <-chan struct{}) {
	preface := make([]byte, len(h2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	f := h2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for denied := false; !denied; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Log(err)
			return
		}
		headers, ok := frame.(*h2.MetaHeadersFrame)
		if !ok {
			continue
		}
		for _, field := range headers.Fields {
			denied = denied || field.Name == "authorization"
		}
		block.Reset()
		if denied {
			_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "404"})
		} else {
			_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "401"})
			_ = e.WriteField(hpack.HeaderField{Name: "www-authenticate", Value: `Basic realm="evil"`})
		}
		_ = f.WriteHeaders(h2.HeadersFrameParam{StreamID: headers.StreamID, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		if f.WriteWindowUpdate(0, 1) != nil { // takes no answer
			return
		}
	}
}

// newWedged returns a node that keeps a connection to a tenant's registry which cannot be
// written to.
func newWedged(t *testing.T) *nodetest.Node {
	t.Helper()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1s"`))
	evil := wedging(t)
	secret := node.Credentials("eve", strings.Repeat("~", 8000))
	n.MustFail(evil+"/app:1", nil, secret)
	var asked sync.WaitGroup
	for i := range 30 {
		asked.Go(func() { _, _ = n.Pull(fmt.Sprintf("%s/app:%d", evil, i+2), secret) })
	}
	asked.Wait()
	return n
}

// wantStopped stops the node's daemon in that time.
func wantStopped(t *testing.T, n *nodetest.Node, within time.Duration) {
	t.Helper()
	began := time.Now()
	n.Stop()
	if took := time.Since(began); took > within {
		t.Errorf("the daemon has stopped after %v", took.Round(time.Second))
	}
}

// TestRegistryThatReadsNoMore holds that a tenant's registry, of which the daemon keeps a
// connection that cannot be written to, holds up no request for another registry.
func TestRegistryThatReadsNoMore(t *testing.T) {
	n := newWedged(t)
	var asked sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range 140 { // registries of anybody, which nobody has named in a hosts.toml
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ref, began := fmt.Sprintf("127.0.1.%d:1/app:1", i+1), time.Now()
			_, err := n.Pull(ref)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s took %v: %v", ref, took.Round(time.Second), err)
			}
		})
	}
	asked.Wait()
	wantStopped(t, n, 30*time.Second)
}

// TestStopBesideARegistryThatReadsNoMore holds that such a registry does not keep the daemon
// from stopping.
func TestStopBesideARegistryThatReadsNoMore(t *testing.T) {
	n := newWedged(t)
	wantStopped(t, n, 20*time.Second)
}
