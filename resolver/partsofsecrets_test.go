// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// toldByBasic is a registry that gets a password by Basic, and then says something.
func toldByBasic(say func(w http.ResponseWriter, sent string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, sent, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		say(w, sent)
	}
}

// repeating returns all that is told of a registry that gets the secret by Basic, and says it.
func repeating(t *testing.T, secret string, q Query, say func(w http.ResponseWriter, sent string)) string {
	t.Helper()
	server, _ := serve(t, toldByBasic(say))
	var mu sync.Mutex
	var warnings []string
	options := Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, o.Warnings...)
	}}
	q.Credentials = as("alice", secret)
	entry, logged := newLogger(log.TraceLevel)
	_, err := open(t, options, q).Resolve(log.WithLogger(t.Context(), entry), plenty)
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprintf("error: %v\nlog: %s\nwarnings: %q", err, logged, warnings)
}

// wantNothingOf fails where a text has a part of a secret, escaped or not.
func wantNothingOf(t *testing.T, part, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		plain, err := url.QueryUnescape(line)
		if err != nil {
			plain = line
		}
		if strings.Contains(strings.ToLower(line+plain), part) {
			t.Errorf("%s is told: %.500s", part, line)
		}
	}
}

// A secret may have what ends a value, a word, a path or a quoted text: what is cut off there is
// a part of it.
func TestSecretsThatAreCut(t *testing.T) {
	for _, behind := range []string{";", ",", " ", "=", "/", ":", `"`, `\`, "?", "#", "@", "%"} {
		secret := "summer2024xyz" + behind + "more"
		for name, say := range map[string]func(w http.ResponseWriter, sent string){
			"the type of a success": func(w http.ResponseWriter, sent string) {
				w.Header().Set("Content-Type", sent)
				w.Header().Set("Docker-Content-Digest", manifestDigest.String())
				w.Header().Set("Content-Length", "10")
			},
			"a type without a digest": func(w http.ResponseWriter, sent string) {
				w.Header().Set("Content-Type", sent)
				_, _ = io.WriteString(w, "0123456789")
			},
			"a redirect": func(w http.ResponseWriter, sent string) {
				w.Header().Set("Location", "http://127.0.0.1:1/"+sent)
				w.WriteHeader(http.StatusTemporaryRedirect)
			},
			"the URL of a token server": func(w http.ResponseWriter, sent string) {
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://127.0.0.1:1/%s",service="x"`, sent))
				w.WriteHeader(http.StatusUnauthorized)
			},
			"a warning": func(w http.ResponseWriter, sent string) {
				w.Header().Set("Warning", `299 - "the password `+sent+` ends soon"`)
				w.WriteHeader(http.StatusForbidden)
			},
			"a reason": func(w http.ResponseWriter, sent string) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":%q}]}`, sent)
			},
		} {
			t.Run(name+", "+behind, func(t *testing.T) {
				for _, q := range []Query{{}, {ReadManifest: true}} {
					wantNothingOf(t, "summer2024", repeating(t, secret, q, say))
				}
			})
		}
	}
}

// A query with the end of a secret takes nothing from the words behind the URL.
func TestRedirectToAPasswordInAQuery(t *testing.T) {
	away, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for _, behind := range []string{"?", "#"} {
		text := repeating(t, "Summer2024xyz"+behind+"more", Query{}, func(w http.ResponseWriter, sent string) {
			w.Header().Set("Location", away.URL+"/x/"+sent+"&sig=y")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		if want := away.URL + "/x/***: 503 Service Unavailable"; !strings.Contains(text, want) {
			t.Errorf("%s: no %s in %s", behind, want, text)
		}
	}
}

// A secret that a file has with a line break is repeated without.
func TestSecretsWithALineBreak(t *testing.T) {
	text := repeating(t, "Summer2024xyz\n", Query{}, func(w http.ResponseWriter, sent string) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "alice may not with %s, sorry", strings.TrimSpace(sent))
	})
	wantNothingOf(t, "summer2024", text)
	var secrets redact.Redactor
	secrets.AddCredentials("alice", "Summer2024xyz\n")
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, URLs: []string{"http://summer2024xyz.test/layer"}}
	if _, hosts := followable(layer, &secrets); len(hosts) != 0 {
		t.Errorf("%s are followed", hosts)
	}
}

// A secret has a line that begins with a space, as keys in JSON do, and a host repeats it as it was in
// a header, of which net/textproto makes one line.
func TestSecretsOfLinesInHeaders(t *testing.T) {
	for _, secret := range []string{"summer2024xyz\r\n  more", "more,\n  summer2024xyz"} {
		for _, before := range []string{
			"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: ",
			"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nVia: ",
			"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nWarning: 299 - \"",
		} {
			text := repeating(t, secret, Query{}, written(func(sent string) string { return before + sent + `"` }))
			wantNothingOf(t, "summer2024", text)
		}
	}
}
