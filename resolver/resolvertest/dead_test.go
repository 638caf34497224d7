// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// Connections that there are die, new ones live, whatever is spoken on them.
func TestKillConnections(t *testing.T) {
	for _, tc := range []struct {
		what string
		opts []Option
		want int // of the major version
	}{
		{"HTTP/2", []Option{WithTLS()}, 2},
		{"HTTP/1.1", []Option{WithTLS(), WithoutHTTP2()}, 1},
		{"HTTP/1.1, with a round trip", []Option{WithTLS(), WithoutHTTP2(), WithDelay(time.Millisecond)}, 1},
	} {
		r := New(t, tc.opts...)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(r.CAPEM())
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
		ask := func(ctx context.Context) error {
			t.Helper()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/v2/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return err
			}
			if resp.ProtoMajor != tc.want || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s %s", tc.what, resp.Proto, resp.Status)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil { // or it is not used again
				return err
			}
			return resp.Body.Close()
		}
		if err := ask(t.Context()); err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		r.KillConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: on a dead connection: %v", tc.what, err)
		}
		cancel()
		transport.CloseIdleConnections()
		transport = transport.Clone() // whose pool is empty
		if err := ask(t.Context()); err != nil {
			t.Errorf("%s: on a new connection: %v", tc.what, err)
		}
		if n := r.Connections(); n != 2 {
			t.Errorf("%s: %d connections, want 2", tc.what, n)
		}
		transport.CloseIdleConnections()
	}
}
