// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

// sayGoodbye ends an HTTP/2 connection before any request is on it.
func sayGoodbye(_ *http.Server, c *tls.Conn, _ http.Handler) {
	var read sync.WaitGroup
	read.Go(func() { _, _ = io.Copy(io.Discard, c) })
	f := h2.NewFramer(c, c)
	if f.WriteSettings() != nil || f.WriteGoAway(0, h2.ErrCodeNo, nil) != nil {
		_ = c.Close()
	}
	read.Wait()
	_ = c.Close()
}

// A host that says goodbye on every HTTP/2 connection is not sent connections without end, and
// is asked by HTTP/1.1.
func TestGoodbyeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "h2", well)
		synctest.Wait() // the server listens
		h.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){h2.NextProtoTLS: sayGoodbye}
		h.pool.base.IdleConnTimeout = time.Minute
		for range 3 {
			h.want(t, 1)
		}
		if n := h.connections(); n > maxTries*maxConnections {
			t.Errorf("%d connections", n)
		}
		time.Sleep(2 * time.Minute)
		if n := h.open(); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
}
