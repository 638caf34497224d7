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

// By what the manifest's URL was signed is in a layer's url, across the end of its path.
func TestURLsWithSignaturesAcrossTheirPath(t *testing.T) {
	GuardURLs()
	// containerd leaves a fragment out, and the query of what it logs at level debug.
	for _, sep := range []string{"#", "?a=1&"} {
		for _, status := range []int{200, 403, 0} {
			t.Run(fmt.Sprint(sep, status), func(t *testing.T) {
				elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch status {
					case 0:
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "x")
				})
				secret := "summer2024xyzabc" + sep + "moreofit2025abc"
				storage, _ := serve(t, serveManifest)
				server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.Path, "/manifests/") {
						w.Header().Set("Location", storage.URL+"/manifest?sig="+url.QueryEscape(secret))
						w.WriteHeader(http.StatusTemporaryRedirect)
						return
					}
					w.WriteHeader(http.StatusNotFound)
				})
				for _, level := range []log.Level{log.InfoLevel, log.DebugLevel} {
					recorder := tracetest.NewSpanRecorder()
					entry, logged := newLogger(level)
					ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "pull")
					s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(Observation) {}}, Query{Absent: true})
					got, err := s.Resolve(ctx, plenty)
					if err != nil {
						t.Fatal(err)
					}
					source := s.Source(got.Descriptor)
					_, err = readIn(ctx, t, source, ocispec.Descriptor{
						MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
						URLs: []string{elsewhere.URL + "/summer2024xyzabc" + sep + "moreofit2025abc"},
					})
					span.End()
					told := fmt.Sprintf("error: %v\nsources: %q", err, source.Served().Hosts)
					if e := source.Failure(err); e != nil {
						told += fmt.Sprintf("\nfailure: %v, left out %q", e, e.LeftOut)
					}
					var spans []string
					for _, s := range recorder.Ended() {
						spans = append(spans, fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
					}
					all := fmt.Sprintf("%s\nlog: %s\nspans: %s", told, logged, strings.Join(spans, "\nspan: "))
					for _, part := range []string{"summer2024", "moreofit2025"} {
						for line := range strings.SplitSeq(all, "\n") {
							if i := strings.Index(line, part); i >= 0 {
								t.Errorf("%v: %s", level, line[max(0, i-200):min(len(line), i+150)])
							}
						}
					}
				}
			})
		}
	}
}
