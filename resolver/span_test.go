// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// storage is a registry that sends its clients elsewhere for blobs, by URLs that say who
// may have them, after a token of a server that is told a name.
func storage(t *testing.T, secret string) (url string, blob []byte) {
	t.Helper()
	blob = []byte("a layer")
	away, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(blob) })
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = w.Write([]byte(`{"token":"t-0123456789"}`))
		case r.Header.Get("Authorization") != "Bearer t-0123456789":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+"/token?signature="+secret+`",service="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, r, away.URL+"/layer?X-Amz-Signature="+secret, http.StatusTemporaryRedirect)
		}
	})
	return server.URL, blob
}

// containerd has a span for each request, with its URL. The queries of those of storage
// services and token servers are as good as credentials.
func TestSpansHaveNoQueries(t *testing.T) {
	const secret = "c0ffee-c0ffee"
	url, blob := storage(t, secret)
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "pull")
	session := open(t, Options{HostDirs: []string{hostsDir(t, chain(url))}}, Query{})
	plain := http.Client{Transport: guardURLs(nil)}
	t.Cleanup(plain.CloseIdleConnections)
	before := http.DefaultClient.Transport
	http.DefaultClient.Transport = plain.Transport
	t.Cleanup(func() { http.DefaultClient.Transport = before })
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(blob), Size: int64(len(blob))}
	for _, urls := range [][]string{nil, {url + "/foreign?sig=" + secret}} {
		desc.URLs = urls
		fetcher, err := session.Source(desc).Fetcher(ctx, imageRef)
		if err != nil {
			t.Fatal(err)
		}
		r, err := fetcher.Fetch(ctx, desc)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil && urls == nil || urls == nil && string(data) != string(blob) {
			t.Errorf("%v: %q, %v", urls, data, err)
		}
		_ = r.Close()
	}
	span.End()
	asked := map[string]bool{}
	for _, s := range recorder.Ended() {
		if strings.Contains(s.Status().Description, secret) {
			t.Errorf("%s: status %q", s.Name(), s.Status().Description)
		}
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("%s: %s=%s", s.Name(), a.Key, a.Value.String())
			}
			if a.Key == "url.full" {
				asked[a.Value.AsString()[strings.LastIndex(a.Value.AsString(), "/"):]] = true
			}
		}
	}
	if !asked["/token"] || !asked["/layer"] || !asked["/foreign"] {
		t.Errorf("spans of %v", asked)
	}
}

// The guard of content behind urls changes no other use of the client that containerd takes for
// that.
func TestGuardedURLsLeaveOthersAlone(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "deflate")
		_, _ = w.Write([]byte("encoded"))
	})
	own := hosts.Bounded()
	used := 0
	client := &http.Client{Transport: guardURLs(roundTrip(func(req *http.Request) (*http.Response, error) {
		used++
		return own.RoundTrip(req)
	}))}
	defer own.CloseIdleConnections()
	for ours, class := range map[bool]failure.Class{false: failure.None, true: failure.Invalid} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ours {
			req = req.WithContext(withFetch(t.Context(), &fetch{ctx: t.Context(), log: &fetchLog{redactor: &redact.Redactor{}, progress: &progress{}}}))
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != (class == failure.None) {
			t.Errorf("ours %v: %v", ours, err)
		}
	}
	if used != 1 {
		t.Errorf("the transport of before was used %d times", used)
	}
	client.CloseIdleConnections()
}
