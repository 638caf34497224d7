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

// bareRequest returns the median time of a request to the registry on a
// connection that is open: what a round trip takes on this machine, with
// nothing around it.
func bareRequest(ctx context.Context, r *resolvertest.Registry, rounds int) (time.Duration, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CAPEM())
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer t.CloseIdleConnections()
	var all costs
	for range rounds + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/v2/", http.NoBody)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		resp, err := t.RoundTrip(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if err != nil {
			return 0, fmt.Errorf("ask the registry: %w", err)
		}
		all = append(all, cost{took: time.Since(began)})
	}
	return all[1:].median().took, nil // the first one opened the connection
}
