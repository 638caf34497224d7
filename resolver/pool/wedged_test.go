// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// wedging is a host of HTTP/2 that answers what comes first on a connection, and then reads no
// more of it, but goes on to say something, so that the connection counts as alive.
func wedging(t *testing.T, data int) *Pool {
	t.Helper()
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	certificates := trusted.TLS.Certificates
	client := trusted.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusted.Close()
	client.NextProtos, client.ServerName = nil, "example.com"
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			<-stop
			_ = far.Close()
			_ = near.Close()
		}()
		go func() {
			c := tls.Server(far, &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
			preface := make([]byte, len(h2.ClientPreface))
			if _, err := io.ReadFull(c, preface); err != nil {
				return
			}
			f, settings := h2.NewFramer(c, c), make(chan struct{})
			go func() {
				defer close(settings)
				_ = h2.NewFramer(c, nil).WriteSettings()
			}()
			asked, acknowledged := uint32(0), false // nothing may be on its way when nobody reads: the pipe keeps nothing
			for asked == 0 || !acknowledged {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *h2.HeadersFrame:
					asked = frame.StreamID
				case *h2.SettingsFrame:
					acknowledged = acknowledged || frame.IsAck()
				}
			}
			<-settings
			var block bytes.Buffer
			_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = f.WriteHeaders(h2.HeadersFrameParam{StreamID: asked, BlockFragment: block.Bytes(), EndStream: data == 0, EndHeaders: true})
			for range data {
				_ = f.WriteData(asked, false, make([]byte, 16<<10))
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
		}()
		return near, nil
	}
	return New(&http.Transport{DialContext: dial, TLSClientConfig: client, ResponseHeaderTimeout: 30 * time.Second})
}

// A host that reads no more keeps nobody from leaving its connections.
func TestLeavingAWedgedConnection(t *testing.T) {
	{
		p := wedging(t, 0)
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(WithOneTry(ctx), http.MethodHead, "https://example.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := p.RoundTrip(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if err := ask(); err == nil {
			t.Fatal("a host that reads nothing has answered")
		}
		left := make(chan struct{})
		began := time.Now()
		go func() {
			p.CloseIdleConnections()
			close(left)
		}()
		select {
		case <-left:
			t.Logf("after %v", time.Since(began))
		case <-time.After(40 * time.Second): // more than an HTTP/2 connection may be silent, and a ping take
			t.Error("the connections are not left")
		}
	}
}

// A host that reads no more holds nobody who reads what it sends beyond their time for long.
func TestReadingFromAWedgedConnection(t *testing.T) {
	p := wedging(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(WithLayer(ctx, mebi), http.MethodGet, "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(req) //nolint:bodyclose // below
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		read <- err
	}()
	select {
	case err := <-read:
		t.Logf("%v after %v", err, time.Since(began))
	case <-time.After(40 * time.Second):
		t.Error("it is read from for ever")
	}
}

const mebi = 1 << 20
