// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns an HTTP client that trusts the registry, with connections of
// its own.
func client(t *testing.T, r *resolvertest.Registry) *http.Client {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true}
	if pem := r.CAPEM(); pem != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		pair, err := tls.X509KeyPair(r.ClientCertPEM(), r.ClientKeyPEM())
		if err != nil {
			t.Fatal(err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// answer is a response whose body was read.
type answer struct {
	*http.Response
	body []byte
	err  error // of reading the body
}

func do(t *testing.T, c *http.Client, method, url string, headers ...string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, body, err}, nil
}

func get(t *testing.T, c *http.Client, url string, headers ...string) answer {
	t.Helper()
	a, err := do(t, c, http.MethodGet, url, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func push(t *testing.T, r *resolvertest.Registry, ref string, what resolvertest.Pushable) string {
	t.Helper()
	d, err := r.Push(t.Context(), ref, what)
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
