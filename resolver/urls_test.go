// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// A manifest has room for more urls than anybody could compare with each other, and for
// hosts as long as itself.
func TestLayerOfManyURLs(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
	layer.URLs = []string{"http://" + strings.Repeat("h", 1<<20) + ".test/layer"}
	for i := range 150_000 {
		layer.URLs = append(layer.URLs, fmt.Sprintf("http://h%06d.test/layer", i))
	}
	for what, query := range map[string]Query{
		"with a list of sources": {Allow: func(string) bool { return true }}, "without": {},
	} {
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, query).Source(layer)
		f, err := source.Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := f.Fetch(t.Context(), layer)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: the fetch takes %v to begin", what, took)
		}
		if query.Allow != nil {
			_, err = r.Read(make([]byte, 1))
			e := wantClass(t, source.Failure(err), failure.NotFound)
			if text := strings.Join(e.LeftOut, ", "); len(e.LeftOut) == 0 || len(text) > 8<<10 {
				t.Errorf("%d bytes name what is left out", len(text))
			}
		}
		_ = r.Close()
	}
}

// Name servers get the host of a url, labels name it, and the host gets the rest: urls with a
// secret of the pull are not followed, nor those with a host that no label has room for.
func TestURLsOfSecrets(t *testing.T) {
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
	both := base64.RawURLEncoding.EncodeToString([]byte(username + ":" + password))
	for what, address := range map[string]string{
		"a password":                "%s/" + url.PathEscape(password),
		"a password in a query":     "%s/layer?p=" + url.QueryEscape(password),
		"a password that is quoted": "%s/" + percent(password),
		"a password in a bad query": "%s/layer?p=%zz" + percent(password),
		"a token":                   "%s/layer?token=token-1",
		"a token in the host":       "http://token-1.test/layer",
		"a token in capitals":       "http://TOKEN-1.test/layer",
		"credentials":               "http://" + both + ".test/layer",
		"a long host":               "http://" + strings.Repeat("h", 2<<10) + ".test/layer",
		"nothing":                   "%s/layer",
	} {
		for _, allow := range []func(string) bool{nil, func(string) bool { return true }} {
			elsewhere, followed := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "layer") })
			if strings.HasPrefix(address, "%s") {
				address = elsewhere.URL + address[2:]
			}
			g := newGuarded(t)
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") == "":
					g.serve(w, r)
				case strings.HasPrefix(r.URL.Path, "/v2/team/app/blobs/"):
					w.WriteHeader(http.StatusNotFound)
				default:
					serveManifest(w, r)
				}
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice, Allow: allow})
			got, err := s.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			source := s.Source(got.Descriptor)
			from := layer
			from.URLs = []string{address}
			_, err = read(t, source, from)
			if want := what == "nothing" && allow == nil; (err == nil) != want || (len(followed.list()) > 0) != want {
				t.Errorf("%s: requests %q, error %v", what, followed.list(), err)
			}
			if names := source.Served().Hosts; len(names) > 1 && what != "nothing" {
				t.Errorf("%s: sources %.100q", what, names)
			}
			if err == nil {
				continue
			}
			e := wantClass(t, source.Failure(err), failure.NotFound)
			if (len(e.LeftOut) > 0) != (what == "nothing") {
				t.Errorf("%s: left out: %.100q", what, e.LeftOut)
			}
		}
	}
}

// The header of an answer behind a url is bounded as those of hosts are: it is kept as a whole, with
// those of all redirects to it.
func TestHeadersBehindURLsAreBounded(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		size := 0
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", size))
		}))
		server.EnableHTTP2 = h2
		server.StartTLS()
		rt := guardURLs(nil)
		rt.own.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone() //nolint:forcetypeassert // it is one
		ask := func(of int) error {
			size = of
			ctx := withFetch(t.Context(), &fetch{ctx: t.Context(), log: &fetchLog{redactor: &redact.Redactor{}, progress: &progress{}}})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				return err
			}
			if resp.ProtoMajor != 1 || !resp.Close {
				t.Errorf("it speaks %s, and the connection stays: %v", resp.Proto, !resp.Close)
			}
			return resp.Body.Close()
		}
		if err := ask(16 << 10); err != nil {
			t.Errorf("HTTP/2 %v: %v", h2, err)
		}
		if ask(64<<10) == nil {
			t.Errorf("HTTP/2 %v: a header of 64 KiB is taken", h2)
		}
		server.Close()
	}
}

// The user of a url becomes a header: a url that has one is not followed, whatever it hides.
func TestURLsOfUsers(t *testing.T) {
	for _, user := range []string{"x:" + percent(password), percent(username), "nobody", ":", ""} {
		elsewhere, followed := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "layer") })
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "layer") })
		layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
		layer.URLs = []string{strings.Replace(elsewhere.URL, "://", "://"+user+"@", 1) + "/layer"}
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(layer)
		if _, err := read(t, source, layer); err != nil {
			t.Errorf("%q: %v", user, err)
		}
		if served := source.Served().Hosts; len(followed.list()) > 0 || len(served) != 1 || served[0] != serverHost(server) {
			t.Errorf("%q: followed by %q, served by %v", user, followed.list(), served)
		}
	}
}

// percent escapes each byte.
func percent(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

// Documents say what an image is: they come from a registry, wherever their urls lead.
func TestURLsOfDocuments(t *testing.T) {
	elsewhere, followed := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") })
	server, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "content") })
	for _, mediaType := range []string{
		ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageConfig,
		images.MediaTypeDockerSchema2Manifest, images.MediaTypeDockerSchema2ManifestList, images.MediaTypeDockerSchema2Config,
		"application/vnd.example.config+json", "application/octet-stream", "",
	} {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString("content"), Size: 7, URLs: []string{elsewhere.URL}}
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(desc)
		before := len(asked.list())
		if _, err := read(t, source, desc); err != nil {
			t.Errorf("%q: %v", mediaType, err)
		}
		if served := source.Served().Hosts; len(asked.list()) != before+1 || len(served) != 1 || served[0] != serverHost(server) {
			t.Errorf("%q: served by %v", mediaType, served)
		}
	}
	if list := followed.list(); len(list) > 0 {
		t.Errorf("followed: %v", list)
	}
}

// What the node shows registries by CRI's registry.headers is not shown to the host of a url, be
// that a registry too, nor to where it redirects.
func TestURLsAreNotShownHeaders(t *testing.T) {
	GuardURLs()
	const secret = "q1w2e3r4t5y6u7i8o9p0"
	var mu sync.Mutex
	var seen []string
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(fmt.Sprint(r.Header), secret) {
			seen = append(seen, r.URL.Path)
		}
	}
	elsewhere, followed := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = io.WriteString(w, "layer1")
	})
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, elsewhere.URL+"/redirected", http.StatusTemporaryRedirect)
	})
	for _, name := range []string{"X-Node-Token", "authorization", "Cookie"} {
		source := open(t, Options{
			HostDirs: []string{hostsDir(t, chain(server.URL))}, Headers: http.Header{name: {secret}},
		}, Query{}).Source(ocispec.Descriptor{})
		for _, u := range []string{elsewhere.URL + "/direct", server.URL + "/away"} {
			layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer1"), Size: 6}
			layer.URLs = []string{u}
			if _, err := read(t, source, layer); err != nil {
				t.Errorf("%s: %v", u, err)
			}
		}
	}
	if len(seen) > 0 || len(followed.list()) != 6 {
		t.Errorf("the header is shown to %q, of %q", seen, followed.list())
	}
}

// Where a url redirects, the host that it leads to has served the layer, too.
func TestURLsThatRedirectNameWhereTo(t *testing.T) {
	GuardURLs()
	elsewhere, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "layer1") })
	named, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/layer", http.StatusTemporaryRedirect)
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer1"), Size: 6}
	layer.URLs = []string{named.URL + "/layer"}
	if _, err := read(t, source, layer); err != nil {
		t.Fatal(err)
	}
	got, want := source.Served().Hosts, []string{serverHost(named), serverHost(elsewhere)}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("served by %q, want %q", got, want)
	}
}
