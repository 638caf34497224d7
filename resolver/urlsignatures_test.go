// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A storage service writes by what the manifest's URL was signed into the urls of a layer, of which one
// serves that: the part before a slash is a host.
func TestURLsOfPartsOfSignatures(t *testing.T) {
	GuardURLs()
	for what, allow := range map[string]func(string) bool{"followed": nil, "left out": func(string) bool { return true }} {
		t.Run(what, func(t *testing.T) {
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
			var signature string
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				signature = r.URL.Query().Get("sig")
				serveManifest(w, r)
			})
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					w.Header().Set("Location", storage.URL+"/manifest?sig=summer2024xyzabc%2Fmore")
					w.WriteHeader(http.StatusTemporaryRedirect)
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(Observation) {}}, Query{Absent: true, Allow: allow})
			got, err := s.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			source := s.Source(got.Descriptor)
			_, err = read(t, source, ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
				URLs: []string{elsewhere.URL + "/layer", "http://" + signature},
			})
			told := fmt.Sprintf("error: %v\nsources: %q", err, source.Served().Hosts)
			if e := source.Failure(err); e != nil {
				told += fmt.Sprintf("\nfailure: %v, left out %q", e, e.LeftOut)
			}
			t.Log(told)
			wantNothingOf(t, "summer2024", told)
		})
	}
}

// By what the manifest's URL was signed is in a layer's url, across the end of its path: containerd leaves
// a fragment out, and the query of what it logs. Nobody follows that url.
func TestURLsWithSignaturesAcrossTheirPath(t *testing.T) {
	GuardURLs()
	for behind, followed := range map[string]bool{
		"#moreofit2025abc": false, "%23moreofit2025abc": false, "?a=1&moreofit2025abc": false, "%3Fmoreofit2025abc": false,
		"?a=1": true, "/": true, "#": false,
	} {
		t.Run(behind, func(t *testing.T) {
			elsewhere, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") })
			secret, err := url.PathUnescape("summer2024xyzabc" + behind)
			if err != nil {
				t.Fatal(err)
			}
			part := "summer2024"
			if followed {
				secret, part = "another signature", "another"
			}
			storage, _ := serve(t, serveManifest)
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					w.Header().Set("Location", storage.URL+"/manifest?sig="+url.QueryEscape(secret))
					w.WriteHeader(http.StatusTemporaryRedirect)
					return
				}
				w.WriteHeader(http.StatusNotFound)
			})
			recorder := tracetest.NewSpanRecorder()
			entry, logged := newLogger(log.DebugLevel)
			ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "pull")
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(Observation) {}}, Query{Absent: true})
			got, err := s.Resolve(ctx, plenty)
			if err != nil {
				t.Fatal(err)
			}
			source := s.Source(got.Descriptor)
			_, err = readIn(ctx, t, source, ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
				URLs: []string{elsewhere.URL + "/summer2024xyzabc" + behind},
			})
			span.End()
			if n := len(asked.list()); (n > 0) != followed {
				t.Errorf("asked %d times", n)
			}
			told := fmt.Sprintf("error: %v\nfailure: %v\nlog: %s", err, source.Failure(err), logged)
			for _, s := range recorder.Ended() {
				told += fmt.Sprintf("\nspan: %s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events())
			}
			wantNothingOf(t, part, told)
		})
	}
}
