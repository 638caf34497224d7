// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The host of a url takes the request, and does not answer. That is a failure of the class
// unreachable, as it was when image_pull_progress_timeout ended it.
func TestClassOfAURLThatIsSilent(t *testing.T) {
	GuardURLs()
	over := make(chan struct{})
	elsewhere, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	source := s.Source(ocispec.Descriptor{})
	_, err := read(t, source, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1, URLs: []string{elsewhere.URL + "/layer"},
	})
	e := source.Failure(err)
	t.Logf("%v: %v", err, e)
	if e == nil || e.Class != failure.Unreachable {
		t.Errorf("failure %v", e)
	}
}
