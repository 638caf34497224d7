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

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry holds its answer for a layer back until it was sent the caller's token for another one, and redirects then to a
// URL of which net/http leaves the end of the token out.
func TestAnswersHeldUntilATokenIsKnown(t *testing.T) {
	const token = "summer2024abc/more"
	for _, observe := range []func(Observation){nil, func(Observation) {}} {
		away, _ := serve(t, answerStatus(http.StatusServiceUnavailable))
		sent, asked := make(chan struct{}), make(chan struct{})
		var once, onceAsked sync.Once
		one, two := digest.FromString("layer1"), digest.FromString("layer2")
		server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/token":
				_, _ = fmt.Fprintf(w, `{"token":%[1]q,"access_token":%[1]q}`, token)
			case strings.HasSuffix(r.URL.Path, one.String()):
				onceAsked.Do(func() { close(asked) })
				<-sent
				w.Header().Set("Location", away.URL+"/x/"+token+"/..")
				w.WriteHeader(http.StatusTemporaryRedirect)
			case r.Header.Get("Authorization") == "":
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
				w.WriteHeader(http.StatusUnauthorized)
			default:
				once.Do(func() { close(sent) })
				_, _ = io.WriteString(w, "layer2")
			}
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: observe}, Query{Credentials: alice})
		source := s.Source(manifestDesc)
		done := make(chan error)
		go func() {
			_, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: one, Size: 6})
			done <- err
		}()
		<-asked
		_, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: two, Size: 6})
		if err != nil {
			t.Error(err)
		}
		err = <-done
		for _, text := range []string{err.Error(), source.Failure(err).Error()} {
			if strings.Contains(text, "summer2024") {
				t.Errorf("told: %s", text)
			}
		}
	}
}

// A registry is sent a token, and says in one answer what signs a URL and a part of it, behind which net/http leaves the rest out.
func TestRedirectsThatCutTheirOwnSignature(t *testing.T) {
	for _, observe := range []func(Observation){nil, func(Observation) {}} {
		away, _ := serve(t, answerStatus(http.StatusServiceUnavailable))
		const signature = "summer2024abc/more-of-it-0123456789"
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", away.URL+"/x/"+signature+"/..?sig="+signature)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: observe}, Query{Credentials: alice})
		_, err := s.Resolve(t.Context(), plenty)
		if err != nil && strings.Contains(err.Error(), "summer2024") {
			t.Errorf("told: %v", err)
		}
	}
}
