// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A host of a url accepts a request, and is silent: before its answer, in the body of an error, or in
// that of a redirect. It is given up as hosts are, and the failure has its class.
func TestURLsOfSilentHosts(t *testing.T) {
	t.Parallel()
	GuardURLs()
	for what, c := range map[string]struct {
		begin func(w http.ResponseWriter)
		limit time.Duration
		want  failure.Class
	}{
		"before its answer": {func(http.ResponseWriter) {}, 33 * time.Second, failure.Unreachable},
		"in a refusal": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}, 5 * time.Second, failure.Invalid},
		"in a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
		}, 13 * time.Second, failure.Unreachable},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				c.begin(w)
				<-over
			})
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, ProgressTimeout: 5 * time.Minute}, Query{})
			source := s.Source(ocispec.Descriptor{})
			done := make(chan error, 1)
			go func() {
				_, err := read(t, source, ocispec.Descriptor{
					MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1, URLs: []string{elsewhere.URL + "/layer"},
				})
				done <- err
			}()
			select {
			case err := <-done:
				wantClass(t, source.Failure(err), c.want)
			case <-time.After(c.limit):
				t.Errorf("it is waited for after %v", c.limit)
			}
			close(over)
		})
	}
}
