// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A layer has a url, of a host that knows the password of the pull from the registry, or what the url
// is signed by. It redirects to that, of which the part before a slash or a colon is a host that nobody
// finds, or one that is no URL.
func TestURLsThatRedirectToPartsOfSecrets(t *testing.T) {
	GuardURLs()
	for _, secret := range []string{"summer2024xyzabc/more", "summer2024xyzabc:8443", "summer2024xyzabc?more", "more@summer2024xyzabc", "abc:summer2024xyzabc"} {
		for what, c := range map[string]struct{ password, query string }{
			"password":  {secret, ""},
			"signature": {"another password", "?sig=" + strings.NewReplacer("/", "%2F", "?", "%3F", ":", "%3A", "@", "%40").Replace(secret)},
		} {
			t.Run(what+" "+secret, func(t *testing.T) {
				elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { redirecting("http://")(w, secret) })
				server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }))
				recorder := tracetest.NewSpanRecorder()
				entry, logged := newLogger(log.TraceLevel)
				ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "pull")
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", c.password)})
				_, _ = s.Resolve(ctx, plenty)
				_, err := readIn(ctx, t, s.Source(ocispec.Descriptor{}), ocispec.Descriptor{
					MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1, URLs: []string{elsewhere.URL + "/layer" + c.query},
				})
				span.End()
				var spans []string
				for _, s := range recorder.Ended() {
					spans = append(spans, fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
				}
				wantNothingOf(t, "summer2024", fmt.Sprintf("error: %v\nlog: %s\nspans: %s", err, logged, strings.Join(spans, "\nspan: ")))
			})
		}
	}
}

// The host of a url answers with what that is signed by, where a status belongs, and net/http quotes the
// word before the space.
func TestURLsThatAnswerWithPartsOfSignatures(t *testing.T) {
	GuardURLs()
	const signature = "summer2024xyzabc more"
	for what, before := range map[string]string{"status": "HTTP/1.1 ", "length": "HTTP/1.1 200 OK\r\nContent-Length: "} {
		t.Run(what, func(t *testing.T) {
			elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				written(func(sent string) string { return before + sent })(w, signature)
			})
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			entry, logged := newLogger(log.TraceLevel)
			ctx := log.WithLogger(t.Context(), entry)
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
			_, err := readIn(ctx, t, s.Source(ocispec.Descriptor{}), ocispec.Descriptor{
				MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
				URLs: []string{elsewhere.URL + "/layer?sig=" + strings.ReplaceAll(signature, " ", "%20")},
			})
			wantNothingOf(t, "summer2024", fmt.Sprintf("error: %v\nlog: %s", err, logged))
		})
	}
}
