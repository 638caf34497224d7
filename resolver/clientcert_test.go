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

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The client certificate of hosts.toml goes where its headers go: to the registry, and
// not to whom that redirects to.
func TestClientCertificateIsKeptFromRedirects(t *testing.T) {
	pki := resolvertest.New(t, resolvertest.WithClientCertificates())
	shown := func(h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
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
	storage, seen := shown(serveManifest)
	for what, elsewhere := range map[string]string{
		"another port": storage.URL,
		"another name": strings.Replace(storage.URL, "127.0.0.1", "localhost", 1),
	} {
		registry, own := shown(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		})
		dir := t.TempDir()
		for name, data := range map[string][]byte{"client.cert": pki.ClientCertPEM(), "client.key": pki.ClientKeyPEM()} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		hosts := fmt.Sprintf("server = %q\nskip_verify = true\nclient = [[%q, %q]]\n", registry.URL, filepath.Join(dir, "client.cert"), filepath.Join(dir, "client.key"))
		s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
		r, err := s.Resolve(t.Context(), plenty)
		if err != nil || r.Anonymous {
			t.Fatalf("%s: %+v, %v", what, r, err)
		}
		fetcher, err := s.Source(r.Descriptor).Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := fetcher.Fetch(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDigest, Size: int64(len(manifest))})
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
