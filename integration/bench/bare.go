// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// bare makes requests to a registry on a connection that stays open, with
// nothing around them: what a round trip takes on this machine.
type bare struct {
	transport *http.Transport
	url       string
	all       costs
}

// newBare opens the connection. The caller closes it.
func newBare(ctx context.Context, r *resolvertest.Registry) (*bare, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CAPEM())
	b := &bare{
		transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		url:       r.URL() + "/v2/",
	}
	if err := b.ask(ctx); err != nil {
		b.close()
		return nil, err
	}
	b.all = nil
	return b, nil
}

// ask makes one request and measures it.
func (b *bare) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, http.NoBody)
	if err != nil {
		return err
	}
	began := time.Now()
	resp, err := b.transport.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("ask the registry: %w", err)
	}
	b.all = append(b.all, cost{took: time.Since(began)})
	return nil
}

func (b *bare) close() { b.transport.CloseIdleConnections() }
