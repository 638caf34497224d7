// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A storage service redirects by a signature that is a part of the URL of the registry's token server, around the
// begin of its query, or has its own token server give such a token. The registry's token ends in the middle of the
// pull. Its next challenge may be one that nobody meets, but does not refuse the caller.
func TestStorageWhoseSecretIsAPartOfTheTokenServer(t *testing.T) {
	for _, secret := range []string{"good-signature", "/token?from=x"} {
		for _, signs := range []bool{true, false} {
			testSecretOfStorage(t, secret, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/more" || r.Header.Get("Authorization") != "":
					_, _ = io.WriteString(w, "layer1")
				case r.URL.Path == "/token":
					_, _ = fmt.Fprintf(w, `{"token":%[1]q,"access_token":%[1]q}`, secret)
				case signs:
					w.Header().Set("Location", "http://"+r.Host+"/more?sig="+secret)
					w.WriteHeader(http.StatusTemporaryRedirect)
				default:
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
		}
	}
}

func testSecretOfStorage(t *testing.T, secret string, handler http.HandlerFunc) {
	t.Helper()
	storage, _ := serve(t, handler)
	var served atomic.Bool
	var issued atomic.Int32
	one, two := digest.FromString("layer1"), digest.FromString("layer2")
	registry, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprintf(w, `{"token":"token-%[1]d","access_token":"token-%[1]d"}`, issued.Add(1))
		case r.Header.Get("Authorization") == "" || served.Load() && r.Header.Get("Authorization") == "Bearer token-1":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token?from=x",service="x"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, one.String()):
			served.Store(true)
			w.Header().Set("Location", storage.URL+"/blob")
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, "layer2")
		}
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(registry.URL))}}, Query{Credentials: alice})
	source := s.Source(manifestDesc)
	for _, d := range []digest.Digest{one, two} {
		_, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d, Size: 6})
		if err != nil && (d == one || secret == "good-signature") {
			t.Errorf("%s: %v; the registry was asked %q", secret, source.Failure(err), log.list())
		}
		if refusals := source.Refusals(); len(refusals) > 0 {
			t.Errorf("%s: it ends proofs: %+v", secret, refusals)
		}
	}
}

// The same where the registry takes user name and password at first, and wants a token in the middle of the pull.
func TestStorageWhoseSignatureIsAPartOfAChallenge(t *testing.T) {
	for _, signature := range []string{"good-signature", `Bearer realm="http://`} {
		storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/more" {
				_, _ = io.WriteString(w, "layer1")
				return
			}
			w.Header().Set("Location", "http://"+r.Host+"/more?sig="+strings.ReplaceAll(signature, " ", "+"))
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		var tokens atomic.Bool
		one, two := digest.FromString("layer1"), digest.FromString("layer2")
		registry, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _, basic := r.BasicAuth()
			switch {
			case r.URL.Path == "/token":
				_, _ = io.WriteString(w, `{"token":"token-1","access_token":"token-1"}`)
			case r.Header.Get("Authorization") == "Bearer token-1":
				_, _ = io.WriteString(w, "layer2")
			case basic && !tokens.Load():
				tokens.Store(true)
				w.Header().Set("Location", storage.URL+"/blob")
				w.WriteHeader(http.StatusTemporaryRedirect)
			case tokens.Load():
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
				w.WriteHeader(http.StatusUnauthorized)
			default:
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(registry.URL))}}, Query{Credentials: alice})
		source := s.Source(manifestDesc)
		for _, d := range []digest.Digest{one, two} {
			if _, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d, Size: 6}); err != nil {
				t.Errorf("%s: %v; refused: %v; the registry was asked %q", signature, source.Failure(err), source.Refusals(), log.list())
			}
		}
	}
}
