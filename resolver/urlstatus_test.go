// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The host of a url answers with a password where a status line belongs: net/http cuts off what is before
// the status, or behind the line, and docker's errors have the rest.
func TestURLsThatAnswerWithAStatusOfSecrets(t *testing.T) {
	GuardURLs()
	for what, c := range map[string]struct{ secret, before string }{
		"lines":  {"summer2024xyzabc\nmore: x", "HTTP/1.1 503 "},
		"json":   {"summer2024xyzabc\n  \"key\": \"value\"", "HTTP/1.1 503 "},
		"status": {"1 503 summer2024xyzabc", "HTTP/1."},
	} {
		t.Run(what, func(t *testing.T) {
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				written(func(sent string) string { return c.before + sent })(w, c.secret)
			})
			server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }))
			entry, logged := newLogger(log.TraceLevel)
			ctx := log.WithLogger(t.Context(), entry)
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", c.secret)})
			_, _ = s.Resolve(ctx, plenty)
			_, err := readIn(ctx, t, s.Source(ocispec.Descriptor{}), ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
				URLs: []string{elsewhere.URL + "/layer"},
			})
			wantNothingOf(t, "summer2024", fmt.Sprintf("error: %v\nlog: %s", err, logged))
		})
	}
}
