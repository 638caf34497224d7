// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"

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

// A storage service redirects to what signed its URL, or to the password of that, of which the
// part before a slash (as Base64 has them) is looked up as a host.
func TestRedirectsToPartsOfSignatures(t *testing.T) {
	for _, secret := range []string{"summer2024xyzabc/more", "summer2024xyzabc:8443", "summer2024xyzabc/./more", "more@summer2024xyzabc", "summer2024xyzabc?more"} {
		for as, signs := range map[string]func(u *url.URL){
			"query": func(u *url.URL) { u.RawQuery = url.Values{"sig": {secret}}.Encode() },
			"user":  func(u *url.URL) { u.User = url.UserPassword("storage", secret) },
		} {
			t.Run(as+" "+secret, func(t *testing.T) {
				storage, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { redirecting("http://")(w, secret) })
				server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					u, _ := url.Parse(storage.URL + "/x")
					signs(u)
					redirecting("")(w, u.String())
				})
				recorder := tracetest.NewSpanRecorder()
				entry, logged := newLogger(log.TraceLevel)
				ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "x")
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
				_, checked := s.Resolve(ctx, plenty)
				_, fetched := readIn(ctx, t, s.Source(ocispec.Descriptor{}), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("x"), Size: 1})
				span.End()
				var spans []string
				for _, s := range recorder.Ended() {
					spans = append(spans, fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
				}
				for what, text := range map[string]string{
					"check": fmt.Sprint(checked), "pull": fmt.Sprint(fetched), "log": logged.String(), "spans": strings.Join(spans, "\n"),
				} {
					if at := strings.Index(text, "summer2024"); at >= 0 {
						t.Errorf("%s: …%s…", what, text[max(0, at-60):min(len(text), at+60)])
					}
				}
			})
		}
	}
}
