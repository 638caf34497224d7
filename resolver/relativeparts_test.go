// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A relative Location is put in the place of the end of the URL before it: of a secret in that URL,
// net/http leaves out the end, and nobody knows the beginning.
func TestRelativeRedirectsThatCutSecrets(t *testing.T) {
	for secret, location := range map[string]string{
		"summer2024xyzabc/more": "x",
		"summer2024xyzabc?more": "?x",
		"summer2024abc/mo/re":   "..",
	} {
		for _, q := range []Query{{}, {ReadManifest: true}} {
			t.Run(fmt.Sprintf("%s %v", secret, q.ReadManifest), func(t *testing.T) {
				away, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.RequestURI(), "more") || strings.HasSuffix(r.URL.Path, "/re") {
						w.Header().Set("Location", location)
						w.WriteHeader(http.StatusTemporaryRedirect)
						return
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				wantNothingOf(t, "summer2024", repeating(t, secret, q, func(w http.ResponseWriter, sent string) {
					w.Header().Set("Location", away.URL+"/x/"+sent)
					w.WriteHeader(http.StatusTemporaryRedirect)
				}))
			})
		}
	}
}

// A CDN, to which a registry redirects with a signature that has a slash (as Akamai's acl=/… has), leads on
// to the same path with one parameter more, as those do that look for cookies. Nothing of the URL is left out.
func TestRelativeRedirectToTheSamePath(t *testing.T) {
	for name, to := range map[string]string{
		"path and query": "/blobs/x?hdntl=exp=1~acl=/blobs/*~hmac=00112233445566778899&cookie=1",
		"another value":  "/blobs/x?hdntl=exp=1~acl=/blobs/*~hmac=00112233445566779999",
		"query":          "?cookie=1",
		"path":           "/other?hdntl=exp=1~acl=/blobs/*~hmac=00112233445566778899&cookie=1",
	} {
		t.Run(name, func(t *testing.T) {
			cdn, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.RequestURI(), to) {
					_, _ = io.WriteString(w, "layer1")
					return
				}
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			})
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", cdn.URL+"/blobs/x?hdntl=exp=1~acl=/blobs/*~hmac=00112233445566778899")
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
			got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer1"), Size: 6})
			if err != nil || got != "layer1" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A registry redirects to a password, and then to another query or fragment of that URL: the path is
// kept, and the fragment, which has the rest of the password, is left out.
func TestRelativeRedirectsThatLeaveAFragmentOut(t *testing.T) {
	for _, secret := range []string{"summer2024xyz#more", "summer2024xyz?#more", "summer2024xyz#?more"} {
		for _, second := range []string{"?z", "#z"} {
			t.Run(secret+" "+second, func(t *testing.T) {
				hops := []string{"/a/" + secret, second}
				wantNothingOf(t, "summer2024", repeating(t, secret, Query{}, func(w http.ResponseWriter, _ string) {
					if len(hops) == 0 {
						w.WriteHeader(http.StatusNotFound)
						return
					}
					w.Header()["Location"] = hops[:1]
					hops = hops[1:]
					w.WriteHeader(http.StatusTemporaryRedirect)
				}))
			})
		}
	}
}
