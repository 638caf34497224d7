// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A Docker-Content-Digest that says another digest than the bytes have makes the answer of a check that
// reads the manifest invalid, whatever its algorithm.
func TestDigestOfAnotherAlgorithmThatSaysOtherBytes(t *testing.T) {
	origin, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
		w.Header().Set("Docker-Content-Digest", digest.SHA512.FromString("something else").String())
		if r.Method == http.MethodGet {
			_, _ = w.Write(manifest)
		}
	})
	for name, reference := range map[string]string{"tag": imageRef, "digest": registryName + "/team/app@" + manifestDigest.String()} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(origin.URL))}}, Query{Reference: reference, ReadManifest: true})
			_, err := s.Resolve(t.Context(), plenty)
			_ = wantClass(t, err, failure.Invalid)
		})
	}
}
