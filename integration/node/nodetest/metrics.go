// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// FreeAddress returns an address of the loopback that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// MetricsAt has the daemon serve its metrics at an address.
func MetricsAt(address string) Option {
	return Tables(fmt.Sprintf("[plugins.'io.containerd.server.v1.metrics']\n  address = %q\n", address))
}

// Metrics returns the daemon's metrics, which are served at the address.
func (n *Node) Metrics(address string) string {
	n.T.Helper()
	req, err := http.NewRequestWithContext(n.context(), http.MethodGet, "http://"+address+"/v1/metrics", http.NoBody)
	n.Must(err)
	resp, err := http.DefaultClient.Do(req)
	n.Must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	n.Must(err)
	return string(text)
}
