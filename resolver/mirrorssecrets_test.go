// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// gives is a mirror that has nothing, and whose token server gives that token to everybody.
func gives(token *string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprintf(w, `{"token":%[1]q,"access_token":%[1]q}`, *token)
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
			answerStatus(http.StatusUnauthorized)(w, r)
		default:
			answerStatus(http.StatusNotFound)(w, r)
		}
	}
}

// A mirror may only pull. Its token is a part of the URL by which the registry is asked: the registry's
// relative redirect is taken for one that parts a secret.
func TestMirrorWhoseTokenIsAPartOfTheRegistrysURL(t *testing.T) {
	for name, token := range map[string]string{"any token": "good-token", "a part of the URL": "%s/v2/te", "signed by a part of the URL": "%s/v2/te", "upstream": ""} {
		t.Run(name, func(t *testing.T) {
			layer := []byte("layer")
			mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case name == "upstream" && r.URL.Path != "/lost": // an honest mirror, which says where its service may look
					http.Redirect(w, r, "/lost?upstream="+url.QueryEscape(token+r.URL.Path), http.StatusTemporaryRedirect)
				case name == "upstream":
					answerStatus(http.StatusNotFound)(w, r)
				case !strings.HasPrefix(name, "signed"):
					gives(&token)(w, r)
				case r.URL.Path == "/lost":
					answerStatus(http.StatusNotFound)(w, r)
				default: // no token at all
					http.Redirect(w, r, "/lost?signature="+token, http.StatusTemporaryRedirect)
				}
			})
			origin, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/storage/"):
					_, _ = w.Write(layer)
				case strings.Contains(r.URL.Path, "/blobs/"):
					w.Header().Set("Location", "/storage/layer") // as Google's Artifact Registry does
					w.WriteHeader(http.StatusTemporaryRedirect)
				default:
					serveManifest(w, r)
				}
			})
			host := serverHost(origin)
			if name == "upstream" {
				token = origin.URL
			}
			if strings.Contains(token, "%s") {
				token = fmt.Sprintf(token, host[len(host)-4:])
			}
			toml := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\"]\n", origin.URL, mirror.URL)
			s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{})
			source := s.Source(manifestDesc)
			got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
			if err != nil || got != string(layer) {
				t.Errorf("got %q: %v: %v; the registry was asked %q", got, err, source.Failure(err), log.list())
			}
		})
	}
}

// A mirror that has nothing gives a token that is a part of the digest that the registry says.
func TestMirrorWhoseTokenIsAPartOfADigest(t *testing.T) {
	for name, token := range map[string]string{"any token": "good-token", "a part of the digest": manifestDigest.Encoded()[:32]} {
		t.Run(name, func(t *testing.T) {
			mirror, _ := serve(t, gives(&token))
			origin, log := serve(t, serveManifest)
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{Known: manifestDigest})
			if _, err := s.Resolve(t.Context(), plenty); err != nil {
				e, _ := errors.AsType[*Error](err)
				t.Errorf("%s: %v; the registry was asked %q", e.Class, err, log.list())
			}
		})
	}
}

// A mirror that has nothing gives a token that is a part of the URL of the registry's token server: that would
// be a refusal of the caller.
func TestMirrorWhoseTokenIsAPartOfTheRegistrysTokenServer(t *testing.T) {
	for _, token := range []string{"good-token", "/token?from=x"} {
		mirror, _ := serve(t, gives(&token))
		origin, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/token":
				_, _ = io.WriteString(w, `{"token":"token-1","access_token":"token-1"}`)
			case r.Header.Get("Authorization") == "":
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token?from=x",service="x"`, r.Host))
				answerStatus(http.StatusUnauthorized)(w, r)
			default:
				serveManifest(w, r)
			}
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{Credentials: alice, Known: manifestDigest})
		if _, err := s.Resolve(t.Context(), plenty); err != nil {
			e, _ := errors.AsType[*Error](err)
			t.Errorf("%q: %s: %v; the registry was asked %q", token, e.Class, err, log.list())
		}
	}
}

// A host's own token is no digest that it says, and the caller's password is none that any host says, also one that
// was not shown it.
func TestDigestsWithSecretsOfOtherHosts(t *testing.T) {
	secret := manifestDigest.Encoded()[:32]
	for name, tc := range map[string]struct {
		token, password string
		refused         bool
	}{
		"nothing":                {"token-1", password, false},
		"its own token":          {secret, password, true},
		"the caller's password":  {"token-1", secret, true},
		"the password at a host": {"", secret, true},
	} {
		mirror, _ := serve(t, toldByBasic(func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }))
		origin, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case tc.token == "", r.Header.Get("Authorization") != "":
				serveManifest(w, r)
			case r.URL.Path == "/token":
				_, _ = fmt.Fprintf(w, `{"token":%[1]q,"access_token":%[1]q}`, tc.token)
			default:
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
				answerStatus(http.StatusUnauthorized)(w, r)
			}
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{Credentials: as("alice", tc.password)})
		_, err := s.Resolve(t.Context(), plenty)
		if (err != nil) != tc.refused || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A mirror that may not say what a tag stands for cannot have written its token into the registry's image: it has
// chosen what that says.
func TestMirrorWhoseTokenIsInAConfig(t *testing.T) {
	const program = "/usr/bin/App-2024"
	config := `{"architecture":"amd64","os":"linux","config":{"Entrypoint":["` + program + `"]}}`
	for name, tc := range map[string]struct {
		token, capabilities string
		order               Order
		refused             bool
	}{
		"another token":             {"good-token", `"pull", "resolve"`, ListedOrder, false},
		"one that may only pull":    {program, `"pull"`, ListedOrder, false},
		"the registry says it":      {program, `"pull", "resolve"`, OriginOnly, false},
		"one that may write images": {program, `"pull", "resolve"`, ListedOrder, true},
	} {
		mirror, _ := serve(t, gives(&tc.token))
		origin, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, config) })
		toml := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [%s]\n", origin.URL, mirror.URL, tc.capabilities)
		s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{Order: tc.order})
		src := s.Source(manifestDesc)
		got, err := read(t, src, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString(config), Size: int64(len(config))})
		if (err != nil) != tc.refused || err == nil && got != config {
			t.Errorf("%s: got %q: %v", name, got, err)
		}
		if failed := src.Failure(err); err != nil && failed.Class != failure.Invalid {
			t.Errorf("%s: it has failed by %v", name, failed)
		}
	}
}
