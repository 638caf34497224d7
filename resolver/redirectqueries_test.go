// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A host redirects to itself without end, by relative URLs that are signed anew each time. net/http quotes
// the last one as it is written, which nobody asks any more.
func TestRelativeRedirectsWithoutEnd(t *testing.T) {
	GuardURLs()
	for _, level := range []log.Level{log.InfoLevel, log.DebugLevel} {
		for _, what := range []string{"of a url", "of a blob", "of a tag"} {
			t.Run(fmt.Sprint(what, " ", level), func(t *testing.T) {
				var n atomic.Int64
				again := func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Location"] = []string{fmt.Sprintf("/v2/next/blobs/x?sig=%csummer2024xyzabc", rune('a'+n.Add(1)))}
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
				elsewhere, _ := serve(t, again)
				server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case isProbe(r) || what == "of a url":
						w.WriteHeader(http.StatusNotFound)
					default:
						again(w, r)
					}
				})
				recorder := tracetest.NewSpanRecorder()
				entry, logged := newLogger(level)
				ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "pull")
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(Observation) {}}, Query{})
				var err error
				if what == "of a tag" {
					_, err = s.Resolve(ctx, plenty)
				} else {
					desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1}
					if what == "of a url" {
						desc.URLs = []string{elsewhere.URL + "/layer"}
					}
					source := s.Source(ocispec.Descriptor{})
					_, err = readIn(ctx, t, source, desc)
					err = fmt.Errorf("%w; %w", err, source.Failure(err))
				}
				span.End()
				var spans []string
				for _, s := range recorder.Ended() {
					spans = append(spans, fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
				}
				t.Logf("error: %v", err)
				wantNothingOf(t, "summer2024", fmt.Sprintf("error: %v\nlog: %s\nspans: %s", err, logged, strings.Join(spans, "\nspan: ")))
			})
		}
	}
}
