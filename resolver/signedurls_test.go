// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Two layers of an image have urls that are signed alike, by one SAS or the same algorithm: what a
// url was signed by is hidden in errors, and the next one is followed all the same.
func TestURLsSignedAlike(t *testing.T) {
	GuardURLs()
	for _, query := range []string{
		"?sv=2024-11-04&sp=r&sig=q1w2e3r4t5y6u7i8o9p0a1s2d3f4",
		"?X-Amz-Algorithm=AWS4-HMAC-SHA256",
	} {
		elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path[1:]) })
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
		for _, name := range []string{"layer1", "layer2"} {
			layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(name), Size: 6}
			layer.URLs = []string{elsewhere.URL + "/" + name + query}
			if _, err := read(t, source, layer); err != nil {
				t.Errorf("%s of %s: %v", name, query, err)
			}
		}
	}
}

// The same where only the registry redirects to S3, for the first layer, and the second has a url there.
func TestURLsSignedAsTheRegistryDoes(t *testing.T) {
	elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path[1:]) })
	one, two := digest.FromString("layer1"), digest.FromString("layer2")
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/team/app/blobs/"+one.String() {
			http.Redirect(w, r, elsewhere.URL+"/layer1?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0011", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	if _, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: one, Size: 6}); err != nil {
		t.Fatal(err)
	}
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: two, Size: 6}
	layer.URLs = []string{elsewhere.URL + "/layer2?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=2233"}
	if _, err := read(t, source, layer); err != nil {
		t.Error(err)
	}
}

// A manifest has room for a url of megabytes, and for many, in which nobody looks for secrets.
func TestLongURLs(t *testing.T) {
	var secrets redact.Redactor
	secrets.AddCredentials(username, password)
	for size, want := range map[int]int{100: maxURLs, 1 << 10: 7, 3 << 10: 2, 5 << 10: 0, 3 << 20: 0} {
		layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip}
		for range 2 * maxURLs {
			layer.URLs = append(layer.URLs, "http://h.test/layer?"+strings.Repeat("x", size))
		}
		if urls, _ := followable(layer, &secrets); len(urls) != want {
			t.Errorf("%d bytes: %d urls are followed, want %d", size, len(urls), want)
		}
	}
}

// A registry redirects to a storage service with a user, by whose password that is asked, and which
// it repeats.
func TestUsersOfRedirects(t *testing.T) {
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, sent, _ := r.BasicAuth()
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "not with %s, by %s", sent, r.Header.Get("Authorization"))
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.Replace(storage.URL, "://", "://storage:Summer2024xyz@", 1)+"/x")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	entry, logged := newLogger(log.TraceLevel)
	ctx := log.WithLogger(t.Context(), entry)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	_, checked := s.Resolve(ctx, plenty)
	_, fetched := readIn(ctx, t, s.Source(ocispec.Descriptor{}), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("x"), Size: 1})
	if fetched == nil || !strings.Contains(fetched.Error(), "not with ***, by Basic ***") {
		t.Errorf("got %v", fetched)
	}
	text := fmt.Sprint(checked, fetched, logged)
	for _, secret := range []string{"Summer2024xyz", "c3RvcmFnZTpTdW1tZXIyMDI0eHl6"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is told: %s", secret, text)
		}
	}
}
