// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// bare asks for a tag's digest with a token, on a connection that stays open,
// and with nothing around it: the least that a check can take on this machine.
type bare struct {
	base *http.Transport
	with http.RoundTripper // base, with a token
	url  string
	all  costs
}

// newBare connects and gets the token. The caller closes it.
func newBare(ctx context.Context, r *resolvertest.Registry, repository, tag string) (*bare, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CAPEM())
	b := &bare{
		base: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		url:  fmt.Sprintf("%s/v2/%s/manifests/%s", r.URL(), repository, tag),
	}
	repo, err := name.NewRepository(r.Host() + "/" + repository)
	if err == nil {
		auth := &authn.Basic{Username: user, Password: password}
		b.with, err = transport.NewWithContext(ctx, repo.Registry, auth, b.base, []string{repo.Scope(transport.PullScope)})
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("get a token: %w", err)
	}
	return b, nil
}

// ask makes one request and measures it.
func (b *bare) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, b.url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", ocispec.MediaTypeImageManifest+", "+ocispec.MediaTypeImageIndex)
	began := time.Now()
	resp, err := b.with.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("ask the registry: %w", err)
	}
	took := time.Since(began)
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answered %s to %s", resp.Status, b.url)
	}
	b.all = append(b.all, cost{took: took})
	return nil
}

func (b *bare) close() { b.base.CloseIdleConnections() }
