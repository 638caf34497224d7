// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/reference"
	contentlocal "github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// puller is containerd's transfer service, and a session for imageRef.
type puller struct {
	service transfer.Transferrer
	session *Session
}

func newPuller(t *testing.T, config transferlocal.TransferConfig, options Options, request Request) *puller {
	t.Helper()
	dir := t.TempDir()
	cs, err := contentlocal.NewStore(filepath.Join(dir, "content"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mdb := metadata.NewDB(db, cs, nil)
	config.Leases = metadata.NewLeaseManager(mdb)
	return &puller{
		service: transferlocal.NewTransferService(mdb.ContentStore(), metadata.NewImageStore(mdb), config),
		session: open(t, options, request),
	}
}

// pull resolves imageRef and transfers it. During the transfer, the registries
// are as trouble makes them.
func (p *puller) pull(t *testing.T, trouble func()) (*Source, error) {
	t.Helper()
	got, err := p.session.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	if trouble != nil {
		trouble()
	}
	source := p.session.Source(got.Descriptor)
	return source, p.transfer(t.Context(), source)
}

func (p *puller) transfer(ctx context.Context, source *Source) error {
	return p.service.Transfer(namespaces.WithNamespace(ctx, "test"), source, image.NewStore(imageRef))
}

// registries starts registries that all have the image, and returns the
// hosts.toml that names them in their order.
func registries(t *testing.T, n int, options ...resolvertest.Option) ([]*resolvertest.Registry, string) {
	t.Helper()
	list := make([]*resolvertest.Registry, n)
	urls := make([]string, n)
	for i := range list {
		list[i] = resolvertest.New(t, options...)
		if _, err := list[i].Push(t.Context(), "team/app:v1", resolvertest.Image(1, 3, 64<<10)); err != nil {
			t.Fatal(err)
		}
		urls[i] = list[i].URL()
	}
	return list, chain(urls...)
}

func TestPullIsPinned(t *testing.T) {
	users := map[string]string{username: password}
	list, hosts := registries(t, 1, resolvertest.WithTokenAuth(users))
	r := list[0]
	r.Forget()
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{Credentials: alice})
	source, err := p.pull(t, func() {
		if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(2, 1, 100)); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	name, desc, err := source.Resolve(t.Context())
	if err != nil || name != imageRef || source.Image() != imageRef || !strings.Contains(source.String(), desc.Digest.String()) {
		t.Errorf("got %q, %v, %v, %s", name, desc, err, source)
	}
	want := Served{ManifestHost: r.Host(), ManifestReference: r.Host() + "/team/app:v1", ContentHosts: []string{r.Host()}}
	if got := source.Served(); got.ManifestHost != want.ManifestHost || got.ManifestReference != want.ManifestReference || !slices.Equal(got.ContentHosts, want.ContentHosts) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// The check: HEAD, token, HEAD. The pull, with the same token: manifest,
	// config, three layers.
	if n := r.Count(resolvertest.Of("", resolvertest.Tokens)); n != 1 {
		t.Errorf("%d tokens, want 1", n)
	}
	if n := r.Count(nil); n != 3+5 {
		t.Errorf("%d requests, want 8: %+v", n, r.Requests())
	}
	if n := r.Connections(); n > 4 {
		t.Errorf("%d connections", n)
	}

	// What is there is not fetched, so nobody served it.
	again := p.session.Source(desc)
	if err := p.transfer(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if got := again.Served(); got.ManifestReference != "" || len(got.ContentHosts) != 0 {
		t.Errorf("got %+v", got)
	}
	if again.Failure(nil) != nil {
		t.Error("no error is judged as a failure")
	}
}

func TestServedBySeveralHosts(t *testing.T) {
	list, hosts := registries(t, 3)
	list[0].Status(resolvertest.Blobs, http.StatusNotFound)
	list[1].Status(resolvertest.All, http.StatusServiceUnavailable)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := source.Served()
	if got.ManifestHost != list[0].Host() || !slices.Equal(got.ContentHosts, []string{list[0].Host(), list[2].Host()}) {
		t.Errorf("got %+v", got)
	}
	if cause := source.Failure(errors.New("no space")); cause != nil {
		t.Errorf("hosts that were not needed are blamed: %v", cause)
	}
	if n := list[1].Count(resolvertest.Of("", resolvertest.Blobs)); n != 4 {
		t.Errorf("the mirror was asked %d times for blobs, want once for each of 4", n)
	}
}

// Large layers can be fetched in pieces side by side.
func TestServedInPieces(t *testing.T) {
	list, hosts := registries(t, 1)
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 4, ConcurrentLayerFetchBuffer: 8 << 10},
		Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := source.Served(); !slices.Equal(got.ContentHosts, []string{list[0].Host()}) {
		t.Errorf("got %+v", got)
	}
}

// Each cause of a failed pull has its class.
func TestCausesOfAFailedPull(t *testing.T) {
	for name, test := range map[string]struct {
		trouble func(*resolvertest.Registry)
		class   failure.Class
	}{
		"refused":             {func(r *resolvertest.Registry) { r.Refuse() }, failure.Unreachable},
		"503":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 503) }, failure.Unavailable},
		"blobs 502":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 502) }, failure.Unavailable},
		"429":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 429, "Retry-After", "3600") }, failure.RateLimited},
		"404":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, 404) }, failure.NotFound},
		"blobs 404":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 404) }, failure.NotFound},
		"401":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 401) }, failure.Unauthorized},
		"blobs 403":           {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 403) }, failure.Forbidden},
		"416":                 {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 416) }, failure.Invalid},
		"302 without target":  {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 302) }, failure.Invalid},
		"302 without end":     {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 302, "Location", "/v2/x/blobs/y") }, failure.Invalid},
		"reset":               {func(r *resolvertest.Registry) { r.Reset(resolvertest.Blobs) }, failure.Unreachable},
		"drops in the middle": {func(r *resolvertest.Registry) { r.DropMidBlob(1000) }, failure.Unreachable},
		"corrupt manifest":    {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Manifests) }, failure.Invalid},
		"corrupt blobs":       {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Blobs) }, failure.Invalid},
		"page for a manifest": {func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }, failure.Invalid},
		"page for blobs":      {func(r *resolvertest.Registry) { r.HTML(resolvertest.Blobs) }, failure.Invalid},
		"unknown encoding": {func(r *resolvertest.Registry) {
			r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				w.Header().Set("Content-Encoding", "morse")
				next.ServeHTTP(w, req)
			})
		}, failure.Invalid},
		"corrupt layers only": {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { p[len(p)-1] ^= 1; return p }) }, failure.Invalid},
		"short layers":        {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { return p[:len(p)-1] }) }, failure.Invalid},
		"long layers":         {func(r *resolvertest.Registry) { onlyLayers(r, func(p []byte) []byte { return append(p, 0) }) }, failure.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 1)
			r := list[0]
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
			source, err := p.pull(t, func() { test.trouble(r) })
			if err == nil {
				t.Fatal("the pull succeeded")
			}
			cause := source.Failure(fmt.Errorf("pull and unpack image: %w", err))
			if cause == nil {
				t.Fatalf("nobody is blamed for %v", err)
			}
			e := wantClass(t, cause, test.class)
			if len(e.Attempts) == 0 || !strings.Contains(e.Error(), r.Host()) {
				t.Errorf("%q does not blame %s", e, r.Host())
			}
		})
	}
}

// onlyLayers changes the blobs that are not JSON.
func onlyLayers(r *resolvertest.Registry, change func([]byte) []byte) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		var b buffer
		next.ServeHTTP(&b, req)
		if data := b.Bytes(); len(data) > 0 && data[0] != '{' && strings.Contains(req.URL.Path, "/blobs/") {
			_, _ = w.Write(change(data))
			return
		}
		for k, v := range b.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(b.status())
		_, _ = w.Write(b.Bytes())
	})
}

// Each mirror is asked, and the origin's class is that of the pull.
func TestFailedPullFromSeveralHosts(t *testing.T) {
	for name, test := range map[string]struct {
		mirror, origin func(*resolvertest.Registry)
		class          failure.Class // None = the pull succeeds
		tries          int           // of the origin for one blob
	}{
		"mirror is corrupt":      {func(r *resolvertest.Registry) { r.Corrupt(resolvertest.Blobs) }, nil, failure.Invalid, 0},
		"mirror has nothing":     {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 404) }, nil, failure.None, 1},
		"origin is down":         {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 404) }, func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 500) }, failure.Unavailable, maxTries},
		"origin refuses":         {func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 500) }, func(r *resolvertest.Registry) { r.Status(resolvertest.Blobs, 403) }, failure.Forbidden, 1},
		"mirror is rate-limited": {func(r *resolvertest.Registry) { r.Status(resolvertest.All, 429) }, nil, failure.None, 1},
	} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 2)
			p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
			source, err := p.pull(t, func() {
				test.mirror(list[0])
				if test.origin != nil {
					test.origin(list[1])
				}
			})
			if test.class == failure.None {
				if err != nil {
					t.Fatal(err)
				}
			} else if e := wantClass(t, source.Failure(err), test.class); test.origin != nil && len(e.Attempts) != 2 {
				t.Errorf("got attempts %v", e.Attempts)
			}
			paths := map[string]int{}
			for _, req := range list[1].Requests() {
				paths[req.Path]++
			}
			for path, n := range paths {
				if strings.Contains(path, "/blobs/") && n > test.tries {
					t.Errorf("the origin was asked %d times for %s, want at most %d", n, path, test.tries)
				}
			}
		})
	}
}

// A connection that breaks is continued where it broke, and does not count.
func TestResumedPull(t *testing.T) {
	list, hosts := registries(t, 1)
	r := list[0]
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 1}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	source, err := p.pull(t, func() {
		dropped := false
		var undo func()
		undo = r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			var b buffer
			next.ServeHTTP(&b, req)
			data := b.Bytes()
			for k, v := range b.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(b.status())
			if !dropped && len(data) > 10_000 {
				dropped = true
				_, _ = w.Write(data[:5_000])
				w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(data)
		})
		t.Cleanup(undo)
	})
	if err != nil {
		t.Fatal(err)
	}
	if cause := source.Failure(syscall.ENOSPC); cause != nil {
		t.Errorf("the resumed fetch is blamed: %v", cause)
	}
}

// A transfer that is interrupted while the caller waits got stuck.
func TestInterruptedPull(t *testing.T) {
	list, hosts := registries(t, 1)
	r := list[0]
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	got, err := p.session.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	r.Hang(resolvertest.Blobs)
	source := p.session.Source(got.Descriptor)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.transfer(ctx, source) }()
	waitFor(t, func() bool { return r.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0 })
	cancel()
	err = <-done
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	e := wantClass(t, source.Failure(err), failure.Unreachable)
	if !strings.Contains(e.Error(), r.Host()) {
		t.Error(e)
	}

	// Nobody was asked: nobody is to blame.
	if cause := p.session.Source(got.Descriptor).Failure(context.Canceled); cause != nil {
		t.Error(cause)
	}
}

func TestFailureOfOthers(t *testing.T) {
	list, hosts := registries(t, 1)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err, list)
	}
	for _, err := range []error{syscall.ENOSPC, errors.New("image verifier said no"), errdefs.ErrNotFound, errdefs.ErrUnavailable, &net404{}} {
		if cause := source.Failure(fmt.Errorf("transfer: %w", err)); cause != nil {
			t.Errorf("%v: %v is blamed", err, cause)
		}
	}
}

type net404 struct{}

func (*net404) Error() string { return "404" }

// An error that has a class may have the gRPC code of no other.
func TestErrorCodes(t *testing.T) {
	for _, class := range failure.All() {
		err := fmt.Errorf("check: %w", &Error{Reference: imageRef, Class: class, Attempts: []Attempt{{Class: class, Err: context.DeadlineExceeded}}})
		if got := errdefs.IsNotFound(err); got != (class == failure.NotFound) {
			t.Errorf("%s: not found is %v", class, got)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s unwraps to its cause", class)
		}
	}
}

func TestReferenceOfAHost(t *testing.T) {
	for _, test := range []struct{ host, path, ref, want string }{
		{"mirror.test:5000", "/v2", "docker.io/library/nginx:1.27", "mirror.test:5000/library/nginx:1.27"},
		{"registry-1.docker.io", "/v2", "docker.io/library/nginx:1.27", "docker.io/library/nginx:1.27"},
		{"registry.test", "/v2", "registry.test/a/b@" + manifestDigest.String(), "registry.test/a/b@" + manifestDigest.String()},
		{"harbor.test", "/v2/hub-proxy", "docker.io/library/nginx:1.27", "harbor.test/hub-proxy/library/nginx:1.27"},
		{"harbor.test", "/v2/a/b", "quay.io/x:1", "harbor.test/a/b/x:1"},
		{"mirror.test", "/prefix/v2", "quay.io/x:1", "mirror.test/x:1"},
		{"mirror.test", "/prefix", "quay.io/x:1", "mirror.test/x:1"},
		{"mirror.test", "", "quay.io/x:1", "mirror.test/x:1"},
	} {
		spec, err := reference.Parse(test.ref)
		if err != nil {
			t.Fatal(err)
		}
		h := &host{RegistryHost: docker.RegistryHost{Host: test.host, Path: test.path}}
		if got := h.reference(spec); got != test.want {
			t.Errorf("%s%s: got %s, want %s", test.host, test.path, got, test.want)
		}
	}
}

func TestSourceOfAPath(t *testing.T) {
	r := resolvertest.New(t)
	if _, err := r.Push(t.Context(), "proxy/team/app:v1", resolvertest.Image(1, 1, 100)); err != nil {
		t.Fatal(err)
	}
	hosts := fmt.Sprintf("server = \"%s/v2/proxy\"\noverride_path = true\n", r.URL())
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := source.Served().ManifestReference, r.Host()+"/proxy/team/app:v1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A descriptor from a manifest is the registry's: nothing in it may panic.
func TestFetchOfOddDescriptors(t *testing.T) {
	list, hosts := registries(t, 1)
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Request{})
	fetcher, err := s.Source(ocispec.Descriptor{}).Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err, list)
	}
	for _, desc := range []ocispec.Descriptor{
		{}, {Digest: "x"}, {Digest: "md5:abc", Size: 1, MediaType: ocispec.MediaTypeImageManifest},
		{Digest: manifestDigest, Size: -1}, {Digest: manifestDigest, Size: 1 << 62, MediaType: ocispec.MediaTypeImageConfig},
	} {
		rc, err := fetcher.Fetch(t.Context(), desc)
		if err != nil {
			continue
		}
		if _, err := rc.Read(make([]byte, 10)); err == nil && desc.Size != 0 {
			t.Errorf("%v can be read", desc)
		}
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
	}
}
