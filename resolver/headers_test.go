// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A challenge of many parameters with escapes takes containerd's parser a time that
// grows with the square of its length, and no time-out ends that.
func TestChallengeThatTakesLongToRead(t *testing.T) {
	challenge := `Bearer realm="https://tokens.test",` + strings.Repeat(`a="\b",`, 150_000)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	start := time.Now()
	_, err := s.Resolve(t.Context(), time.Second)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the check took %v", took)
	}
	wantClass(t, err, failure.Invalid)
}

// Headers of the node are kept from redirects however the operator spells their names, also where
// one name is spelled twice, and the registry is shown all of them.
func TestHeadersInLowerCaseAreKeptFromRedirects(t *testing.T) {
	const secret = "q1w2e3r4t5y6u7i8o9p0"
	var mu sync.Mutex
	var home, away []http.Header
	note := func(seen *[]http.Header, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		*seen = append(*seen, r.Header)
	}
	elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note(&away, r)
		_, _ = io.WriteString(w, "layer1")
	})
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note(&home, r)
		http.Redirect(w, r, elsewhere.URL+"/redirected", http.StatusTemporaryRedirect)
	})
	hosts := func(header string) []string {
		return []string{hostsDir(t, fmt.Sprintf("server = %q\n[header]\n%s\n", server.URL, header))}
	}
	for name, o := range map[string]Options{
		"authorization": {HostDirs: hosts(`authorization = "Bearer ` + secret + `"`)},
		"CRI":           {HostDirs: []string{hostsDir(t, chain(server.URL))}, Headers: http.Header{"x-node-token": {secret}}},
		"hosts.toml":    {HostDirs: hosts(`x-node-token = "` + secret + `"`)},
		"two spellings": {HostDirs: hosts(`X-Node-Token = "another"` + "\n" + `x-node-token = "` + secret + `"`)},
	} {
		layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer1"), Size: 6}
		if _, err := read(t, open(t, o, Query{}).Source(ocispec.Descriptor{}), layer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mu.Lock()
		if len(away) != 1 || strings.Contains(fmt.Sprint(away), secret) || strings.Contains(fmt.Sprint(away), "another") {
			t.Errorf("%s: the storage service is shown %v", name, away)
		}
		if shown := fmt.Sprint(home); !strings.Contains(shown, secret) || name == "two spellings" && !strings.Contains(shown, "another") {
			t.Errorf("%s: the registry is shown %v", name, home)
		}
		home, away = nil, nil
		mu.Unlock()
	}
}

// An operator's Accept for all hosts takes the place of docker's, as in containerd.
func TestAcceptOfTheOperator(t *testing.T) {
	const accept = "application/vnd.oci.image.manifest.v1+json"
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, value := range r.Header["Accept"] {
			if value != accept && !isProbe(r) {
				t.Errorf("%s accepts %s", r.Method, value)
			}
		}
		serveManifest(w, r)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Headers: http.Header{"accept": {accept}}}, Query{})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
}
