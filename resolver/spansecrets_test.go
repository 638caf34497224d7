// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A registry may have what it was sent in the URLs to which it redirects, and what it redirects
// to may fail: spans have neither that nor what has signed a URL.
func TestSpansTellNoSecret(t *testing.T) {
	const signature = "c0ffee-c0ffee-c0ffee"
	for what, code := range map[string]int{"fails": 503, "refuses": 403, "is not there": 404, "answers": 200, "hangs up": 0} {
		t.Run(what, func(t *testing.T) {
			away, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if code == 0 {
					hangUp(w, r)
					return
				}
				w.WriteHeader(code)
			})
			g := newGuarded(t)
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if sent := r.Header.Get("Authorization"); sent != "" {
					_, token, _ := strings.Cut(sent, " ")
					http.Redirect(w, r, fmt.Sprintf("%s/layer/%s?X-Amz-Signature=%s", away.URL, token, signature), http.StatusTemporaryRedirect)
					return
				}
				g.serve(w, r)
			})
			recorder := tracetest.NewSpanRecorder()
			ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "pull")
			session := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice})
			_, _ = session.Resolve(ctx, plenty)
			fetchIn(ctx, t, session, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1})
			span.End()
			if len(recorder.Ended()) < 3 {
				t.Errorf("%d spans", len(recorder.Ended()))
			}
			for _, s := range recorder.Ended() {
				text := fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events())
				for _, secret := range []string{signature, "token-1", password} {
					if strings.Contains(text, secret) {
						t.Errorf("a span has %s: %s", secret, text)
					}
				}
			}
		})
	}
}

func fetchIn(ctx context.Context, t *testing.T, s Session, desc ocispec.Descriptor) {
	t.Helper()
	f, err := s.Source(desc).Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := f.Fetch(ctx, desc); err == nil {
		_, _ = io.ReadAll(r)
		_ = r.Close()
	}
}

// A host of a url answers with the query of its request instead of a status, which net/http quotes.
func TestSpansOfURLsTellNoSignature(t *testing.T) {
	GuardURLs()
	const signature = "c0ffee-c0ffee-c0ffee"
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 4<<10)
		n, _ := c.Read(buf)
		line, _, _ := strings.Cut(string(buf[:n]), "\r\n")
		_, _ = io.WriteString(c, strings.ReplaceAll(line, " ", "_")+"\r\n\r\n")
	}()
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "pull")
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	fetchIn(ctx, t, s, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("x"), Size: 1,
		URLs: []string{"http://" + l.Addr().String() + "/layer?X-Amz-Signature=" + signature},
	})
	span.End()
	told := ""
	for _, s := range recorder.Ended() {
		told += fmt.Sprintf("%s %+v %+v %+v\n", s.Name(), s.Status(), s.Attributes(), s.Events())
	}
	if strings.Contains(told, signature) || !strings.Contains(told, "malformed HTTP response") {
		t.Errorf("spans: %s", told)
	}
}
