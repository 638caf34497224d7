// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A mirror's relative redirect says the URL that was asked, with the ns by which mirrors are asked. The same content is asked for
// again: in another fetch, or for the rest.
func TestMirrorsRelativeRedirectThatSaysWhatWasAsked(t *testing.T) {
	layer := []byte("layer")
	for name, says := range map[string]func(r *http.Request) string{
		"the path":            func(r *http.Request) string { return "?from=" + url.QueryEscape(r.URL.Path) },
		"the path and ns":     func(r *http.Request) string { return "?from=" + url.QueryEscape(r.RequestURI) },
		"the URL with ns":     func(r *http.Request) string { return "?from=" + url.QueryEscape("http://"+r.Host+r.RequestURI) },
		"the digest after it": func(r *http.Request) string { return "?from=" + url.QueryEscape(r.RequestURI) + "&x=1" },
	} {
		for observed, observe := range map[string]func(Observation){"": nil, ", observed as in the daemon": func(Observation) {}} {
			t.Run(name+observed, func(t *testing.T) {
				mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/storage/") {
						_, _ = w.Write(layer)
						return
					}
					w.Header().Set("Location", "/storage/layer"+says(r))
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				origin, log := serve(t, answerStatus(http.StatusServiceUnavailable))
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}, Observe: observe}, Query{})
				source := s.Source(manifestDesc)
				for i := range 2 {
					got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
					if err != nil || got != string(layer) {
						t.Errorf("fetch %d: got %q: %v; the registry was asked %q", i, got, source.Failure(err), log.list())
					}
				}
			})
		}
	}
}

// The ns by which mirrors are asked is escaped for a registry whose name has a port. They may say it as it is, or as they have read it.
func TestMirrorsOfRegistriesWithAPortSayWhatWasAsked(t *testing.T) {
	layer := []byte("layer")
	for _, name := range []string{"longregistry.test", "longregistry.test:5000"} {
		for kind, says := range map[string]func(r *http.Request) string{
			"as it is read": func(r *http.Request) string {
				return "http://" + r.Host + r.URL.Path + "?ns=" + r.URL.Query().Get("ns")
			},
			"as it is": func(r *http.Request) string { return "http://" + r.Host + r.RequestURI },
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				mirror, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/storage/") {
						_, _ = w.Write(layer)
						return
					}
					w.Header().Set("Location", "/storage/layer?from="+url.QueryEscape(says(r)))
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				origin, _ := serve(t, answerStatus(http.StatusServiceUnavailable))
				hostDirs := []string{hostsDirOf(t, name, chain(mirror.URL, origin.URL))}
				s := open(t, Options{HostDirs: hostDirs}, Query{Reference: name + "/team/app:v1"})
				source := s.Source(manifestDesc)
				fetcher, err := source.Fetcher(t.Context(), name+"/team/app:v1")
				if err != nil {
					t.Fatal(err)
				}
				for i := range 2 {
					rc, err := fetcher.Fetch(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
					if err != nil {
						t.Errorf("fetch %d: %v; the mirror was asked %q", i, source.Failure(err), log.list())
						continue
					}
					got, err := io.ReadAll(rc)
					_ = rc.Close()
					if err != nil || string(got) != string(layer) {
						t.Errorf("fetch %d: got %q: %v", i, got, source.Failure(err))
					}
				}
			})
		}
	}
}

// A mirror sends clients on by the URI that they have asked, as nginx' "return 307 /cache$request_uri" does. The registry's name,
// which that has, is no signature.
func TestMirrorsRedirectByWhatWasAsked(t *testing.T) {
	for _, name := range []string{"longregistry.test", "longregistry.test:5000"} {
		for observed, observe := range map[string]func(Observation){"": nil, ", observed": func(Observation) {}} {
			t.Run(name+observed, func(t *testing.T) {
				mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/cache/") {
						w.WriteHeader(http.StatusNotFound)
						return
					}
					w.Header().Set("Location", "/cache"+r.RequestURI)
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				hostDirs := []string{hostsDirOf(t, name, chain(mirror.URL, "http://"+name))}
				s := open(t, Options{HostDirs: hostDirs, Observe: observe}, Query{Reference: name + "/team/app:v1"})
				if _, err := s.Resolve(t.Context(), plenty); err == nil || !strings.Contains(err.Error(), "http://"+name) {
					t.Errorf("the error does not name the registry: %v", err)
				}
			})
		}
	}
}
