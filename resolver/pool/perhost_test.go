// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// A registry redirects large layers to hosts of ever other names: nothing of them is left in memory.
func TestHostsOfLargeLayersAreForgotten(t *testing.T) {
	const hosts = 5000
	p := New(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no such host") }})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	n := 0
	ask := func() {
		label := strings.Repeat("x", 60)
		for range hosts {
			n++
			req, err := http.NewRequestWithContext(WithLayer(t.Context(), 1<<30), http.MethodGet, fmt.Sprintf("https://%d.%s.%s.%s.test/x", n, label, label, label), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := p.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
				t.Fatal("it is answered")
			}
		}
		p.CloseIdleConnections()
	}
	ask()
	before := heap()
	ask()
	if kept := (heap() - before) / hosts; kept > 100 {
		t.Errorf("each host has left %d bytes", kept)
	}
	runtime.KeepAlive(p)
}
