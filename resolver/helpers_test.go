// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	registryName = "registry.test"
	imageRef     = registryName + "/team/app:v1"
)

// image is a manifest that registries of tests serve.
var (
	manifest       = []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json"}`)
	manifestDigest = digest.FromBytes(manifest)
	manifestDesc   = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDigest, Size: int64(len(manifest))}
	otherDigest    = digest.FromString("something else")
)

// requests logs "METHOD /path" of each request that a server got, but for probes.
type requests struct {
	mu  sync.Mutex
	log []string
}

func (r *requests) add(req *http.Request) {
	if isProbe(req) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, req.Method+" "+req.URL.Path)
}

func (r *requests) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// serve starts a server that logs its requests.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *requests) {
	t.Helper()
	var log requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.add(r)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server, &log
}

// serveManifest answers as a registry that has the image does.
func serveManifest(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	w.Header().Set(digestHeader, manifestDigest.String())
	w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(manifest)
	}
}

// answerStatus answers with a status and an error document.
func answerStatus(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"SCRIPTED","message":"status %d on purpose"}]}`, code)
	}
}

// serverHost is the host[:port] of a server.
func serverHost(s *httptest.Server) string {
	_, host, _ := strings.Cut(s.URL, "://")
	return host
}

// hostsDir writes a hosts.toml for registryName and returns the directory of
// the tree.
func hostsDir(t *testing.T, hostsTOML string) string {
	t.Helper()
	return hostsDirOf(t, registryName, hostsTOML)
}

// hostsDirOf is hostsDir for a registry of that name.
func hostsDirOf(t *testing.T, name, hostsTOML string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(hostsTOML), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

// chain is a hosts.toml that names mirrors, and the server at last.
func chain(urls ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server = %q\n", urls[len(urls)-1])
	for _, url := range urls[:len(urls)-1] {
		fmt.Fprintf(&b, "[host.%q]\n", url)
	}
	return b.String()
}

// open opens a session for imageRef, or for the query if it has a reference.
func open(t *testing.T, options Options, query Query) Session {
	t.Helper()
	return openAt(t, newResolver(t, options), query)
}

// newResolver makes a Resolver that is closed at the end of the test.
func newResolver(t testing.TB, options Options) *Resolver {
	t.Helper()
	r := New(options)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// openAt is open with a Resolver that may have more sessions.
func openAt(t testing.TB, r *Resolver, query Query) Session {
	t.Helper()
	if query.Reference == "" {
		query.Reference = imageRef
	}
	s, err := r.Open(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const plenty = 30 * time.Second

// resolve checks imageRef at the given hosts.
func resolve(t *testing.T, query Query, urls ...string) (Resolution, error) {
	t.Helper()
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(urls...))}}, query)
	return s.Resolve(t.Context(), plenty)
}

// wantClass fails unless err is an *Error of that class.
func wantClass(t *testing.T, err error, class failure.Class) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want an *Error of class %s", err, err, class)
	}
	if e.Class != class {
		t.Fatalf("got class %s, want %s: %v", e.Class, class, err)
	}
	for _, a := range e.Attempts {
		if a.Class == failure.None || a.Err == nil {
			t.Errorf("attempt without class or cause: %+v", a)
		}
	}
	return e
}

func wantRequests(t *testing.T, got *requests, want ...string) {
	t.Helper()
	if list := got.list(); !slices.Equal(list, want) {
		t.Errorf("got requests\n  %s\nwant\n  %s", strings.Join(list, "\n  "), strings.Join(want, "\n  "))
	}
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func isProbe(req *http.Request) bool { return req.URL.Path == "/v2/" }

// besideProbes answers probes, and leaves the other requests to rt.
func besideProbes(rt roundTrip) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		if isProbe(req) {
			return answer(req, http.StatusUnauthorized, nil, ""), nil
		}
		return rt(req)
	}
}

// fakeOptions are for hosts without a network, which testing/synctest needs.
func fakeOptions(rt roundTrip, names ...string) Options {
	return Options{Hosts: func(context.Context, Credentials, config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) ([]docker.RegistryHost, error) {
			hosts := make([]docker.RegistryHost, len(names))
			for i, name := range names {
				hosts[i] = docker.RegistryHost{
					Client: &http.Client{Transport: rt}, Authorizer: docker.NewDockerAuthorizer(),
					Scheme: "http", Host: name, Path: "/v2",
					Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
				}
			}
			return hosts, nil
		}
	}}
}

func answer(req *http.Request, code int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

func manifestAnswer(req *http.Request) *http.Response {
	resp := answer(req, http.StatusOK, http.Header{
		"Content-Type": {ocispec.MediaTypeImageManifest},
		digestHeader:   {manifestDigest.String()},
	}, string(manifest))
	if req.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// buffer is an http.ResponseWriter that keeps the answer.
type buffer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (b *buffer) Header() http.Header {
	if b.header == nil {
		b.header = http.Header{}
	}
	return b.header
}

func (b *buffer) WriteHeader(code int) { b.code = code }
func (b *buffer) status() int          { return cmp.Or(b.code, http.StatusOK) }

// waitFor polls until the condition holds.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(plenty)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		time.Sleep(time.Millisecond)
	}
}

// write writes hosts.toml for registryName anew.
func write(t *testing.T, root, hostsTOML string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, registryName, "hosts.toml"), []byte(hostsTOML), 0o644); err != nil {
		t.Fatal(err)
	}
}
