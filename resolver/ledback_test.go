// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A storage service leads back to another repository of the registry, which wants a token for that. The token
// server refuses one, as it does for all of a request that names a repository which the caller may not have.
// That is nothing that the registry says of the repository that it was asked for.
func TestTokenRefusalForWhatAStorageServiceLedTo(t *testing.T) {
	for name, open1 := range map[string]bool{"a token first": false, "no token first": true} {
		t.Run(name, func(t *testing.T) {
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Query().Get("from")+"/v2/team/other/manifests/v1", http.StatusTemporaryRedirect)
			})
			server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				wants := func(repository string) {
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x",scope="repository:%s:pull"`, r.Host, repository))
					answerStatus(http.StatusUnauthorized)(w, r)
				}
				switch {
				case r.URL.Path == "/token":
					_ = r.ParseForm()
					if strings.Contains(strings.Join(r.Form["scope"], " "), "team/other") {
						answerStatus(http.StatusForbidden)(w, r)
						return
					}
					_, _ = fmt.Fprint(w, `{"token":"good-token-of-the-app","access_token":"good-token-of-the-app"}`)
				case strings.Contains(r.URL.Path, "/other/"):
					wants("team/other")
				case !open1 && r.Header.Get("Authorization") == "":
					wants("team/app")
				default:
					http.Redirect(w, r, storage.URL+r.URL.Path+"?from=http://"+r.Host, http.StatusTemporaryRedirect)
				}
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice, Known: manifestDigest})
			_, err := s.Resolve(t.Context(), plenty)
			e, ok := errors.AsType[*Error](err)
			if !ok || len(e.Refusals()) != 0 {
				t.Errorf("a check: %v; %q", err, log.list())
			}
			layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
			source := s.Source(manifestDesc)
			_, err = read(t, source, layer)
			if got := source.Refusals(); len(got) != 0 {
				t.Errorf("a pull: refusals %v of %v", got, err)
			}
		})
	}
}

// The same where it leads back to a place at the host that wants user name and password, which the registry itself
// does not take: it has just accepted a token.
func TestRefusalOfWhatAStorageServiceHadShown(t *testing.T) {
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("from")+"/console", http.StatusTemporaryRedirect)
	})
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprint(w, `{"token":"good-token-of-the-app","access_token":"good-token-of-the-app"}`)
		case r.URL.Path == "/console":
			w.Header().Set("WWW-Authenticate", `Basic realm="console"`)
			answerStatus(http.StatusUnauthorized)(w, r)
		case r.Header.Get("Authorization") == "Bearer good-token-of-the-app":
			http.Redirect(w, r, storage.URL+r.URL.Path+"?from=http://"+r.Host, http.StatusTemporaryRedirect)
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
			answerStatus(http.StatusUnauthorized)(w, r)
		}
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice, Known: manifestDigest})
	_, err := s.Resolve(t.Context(), plenty)
	if e, ok := errors.AsType[*Error](err); !ok || len(e.Refusals()) != 0 {
		t.Errorf("a check: %v; %q", err, log.list())
	}
	source := s.Source(manifestDesc)
	_, err = read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5})
	if got := source.Refusals(); len(got) != 0 {
		t.Errorf("a pull: refusals %v of %v", got, err)
	}
}

// What a storage service has led to once is not what the registry wants from then on.
func TestCheckAfterAStorageServiceLedAstray(t *testing.T) {
	for name, wants := range map[string]string{
		"user and password": `Basic realm="console"`,
		"another token":     `Bearer realm="http://%s/elsewhere",service="x"`,
	} {
		t.Run(name, func(t *testing.T) {
			var astray atomic.Bool
			astray.Store(true)
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if astray.Load() {
					http.Redirect(w, r, r.URL.Query().Get("from")+"/console", http.StatusTemporaryRedirect)
					return
				}
				serveManifest(w, r)
			})
			server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/token":
					_, _ = fmt.Fprint(w, `{"token":"good-token-of-the-app","access_token":"good-token-of-the-app"}`)
				case r.URL.Path == "/elsewhere":
					_, _ = fmt.Fprint(w, `{"token":"token-of-the-console","access_token":"token-of-the-console"}`)
				case r.URL.Path == "/console":
					header := wants
					if strings.Contains(wants, "%s") {
						header = fmt.Sprintf(wants, r.Host)
					}
					w.Header().Set("WWW-Authenticate", header)
					answerStatus(http.StatusUnauthorized)(w, r)
				case r.Header.Get("Authorization") == "Bearer good-token-of-the-app":
					http.Redirect(w, r, storage.URL+r.URL.Path+"?from=http://"+r.Host, http.StatusTemporaryRedirect)
				default:
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
					answerStatus(http.StatusUnauthorized)(w, r)
				}
			})
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}})
			query := Query{Credentials: alice, Known: manifestDigest}
			_, _ = openAt(t, r, query).Resolve(t.Context(), plenty)
			astray.Store(false)
			for range 3 {
				before := len(log.list())
				if _, err := openAt(t, r, query).Resolve(t.Context(), plenty); err != nil {
					e, _ := errors.AsType[*Error](err)
					t.Errorf("refusals %d: %v; %q", len(e.Refusals()), err, log.list()[before:])
				}
			}
		})
	}
}

// A storage service leads HEAD back to a place at the host that is forbidden to all. The host itself is asked
// by GET for the reason: only its own 403 to that is its word.
func TestForbiddenPlaceThatAStorageServiceLedTo(t *testing.T) {
	for name, tc := range map[string]struct {
		get     http.HandlerFunc
		refuses bool
	}{
		"the manifest": {serveManifest, false},
		"not there":    {answerStatus(http.StatusNotFound), false},
		"unavailable":  {answerStatus(http.StatusBadGateway), false},
		"unauthorized": {answerStatus(http.StatusUnauthorized), false},
		"forbidden":    {answerStatus(http.StatusForbidden), true},
	} {
		for way, elsewhere := range map[string]bool{"of the host": false, "of the storage service": true} {
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					http.Redirect(w, r, r.URL.Query().Get("from")+"/console", http.StatusTemporaryRedirect)
					return
				}
				tc.get(w, r)
			})
			server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/console":
					answerStatus(http.StatusForbidden)(w, r)
				case r.Method == http.MethodHead || elsewhere:
					http.Redirect(w, r, storage.URL+r.URL.Path+"?from=http://"+r.Host, http.StatusTemporaryRedirect)
				default:
					tc.get(w, r)
				}
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Known: manifestDigest})
			_, err := s.Resolve(t.Context(), plenty)
			want := tc.refuses && !elsewhere
			if e := wantClass(t, err, failure.Forbidden); (len(e.Refusals()) == 1) != want {
				t.Errorf("%s %s: refusals %v, want %v; %q", name, way, e.Refusals(), want, log.list())
			}
		}
	}
}
