// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The client certificate of hosts.toml goes where its headers go: to the registry, and
// not to whom that redirects to.
func TestClientCertificateIsKeptFromRedirects(t *testing.T) {
	storage, seen := wantsCertificates(t, serveManifest)
	for what, elsewhere := range map[string]string{
		"another port": storage.URL,
		"another name": strings.Replace(storage.URL, "127.0.0.1", "localhost", 1),
	} {
		registry, own := wantsCertificates(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, hostsWithCertificate(t, registry.URL))}}, Query{})
		r, err := s.Resolve(t.Context(), plenty)
		if err != nil || r.Anonymous {
			t.Fatalf("%s: %+v, %v", what, r, err)
		}
		fetcher, err := s.Source(r.Descriptor).Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := fetcher.Fetch(t.Context(), manifestDesc)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(rc); err != nil || string(data) != string(manifest) {
			t.Errorf("%s: %q, %v", what, data, err)
		}
		_ = rc.Close()
		if own.Load() < 2 {
			t.Errorf("%s: the registry was shown %d certificates", what, own.Load())
		}
		if n := seen.Load(); n != 0 {
			t.Errorf("%s: the storage service was shown %d certificates", what, n)
		}
	}
}

// Nor does it go to a token server that is named by whom the registry redirects to; to
// that of the registry it does.
func TestClientCertificateIsKeptFromTokenServersElsewhere(t *testing.T) {
	tokens := func() (*httptest.Server, *atomic.Int32, *atomic.Int32) {
		var asked atomic.Int32
		s, seen := wantsCertificates(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, `{"token":"anybody"}`)
		})
		return s, seen, &asked
	}
	guarded := func(tokens string, serve http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="tokens",scope="repository:app:pull"`, tokens))
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			serve(w, r)
		}
	}
	theirs, seen, asked := tokens()
	ours, own, _ := tokens()
	storage, _ := wantsCertificates(t, guarded(theirs.URL, serveManifest))
	registry, _ := wantsCertificates(t, guarded(ours.URL, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	s := open(t, Options{HostDirs: []string{hostsDir(t, hostsWithCertificate(t, registry.URL))}}, Query{})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	if own.Load() == 0 {
		t.Error("the token server of the registry was shown no certificate")
	}
	if asked.Load() == 0 || seen.Load() != 0 {
		t.Errorf("the token server of the storage service was asked %d times, and shown %d certificates", asked.Load(), seen.Load())
	}
}

// wantsCertificates returns a server that asks for client certificates, and counts the
// requests with one.
func wantsCertificates(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var certificates atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			certificates.Add(1)
		}
		h(w, r)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, &certificates
}

// hostsWithCertificate is the hosts.toml of a registry that is shown a client certificate.
func hostsWithCertificate(t *testing.T, registry string) string {
	pki := resolvertest.New(t, resolvertest.WithClientCertificates())
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "client.cert"), filepath.Join(dir, "client.key")
	for name, data := range map[string][]byte{cert: pki.ClientCertPEM(), key: pki.ClientKeyPEM()} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("server = %q\nskip_verify = true\nclient = [[%q, %q]]\n", registry, cert, key)
}
