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
	"testing"

	corecontent "github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	contentlocal "github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/pool"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// puller is containerd's transfer service, and a session for imageRef.
type puller struct {
	service  transfer.Transferrer
	session  Session
	contents corecontent.Store
	prefetch bool
}

func newPuller(t *testing.T, config transferlocal.TransferConfig, options Options, query Query) *puller {
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
		service:  transferlocal.NewTransferService(mdb.ContentStore(), metadata.NewImageStore(mdb), config),
		session:  open(t, options, query),
		contents: mdb.ContentStore(),
	}
}

// pull resolves imageRef, as once does, and transfers it. During the transfer, the registries
// are as trouble makes them.
func (p *puller) pull(t *testing.T, trouble func()) (Source, error) {
	t.Helper()
	got, err := p.session.Resolve(pool.WithOneTry(t.Context()), plenty)
	if err != nil {
		t.Fatal(err)
	}
	if trouble != nil {
		trouble()
	}
	source := p.session.Source(got.Descriptor)
	return source, p.transfer(t.Context(), source)
}

func (p *puller) transfer(ctx context.Context, source Source) error {
	ctx = namespaces.WithNamespace(ctx, "test")
	if !p.prefetch {
		return p.service.Transfer(ctx, source, image.NewStore(imageRef))
	}
	from, stop := source.Prefetching(Prefetch{Begin: p.begin, Platform: platforms.Default(), Layers: true})
	defer stop()
	return p.service.Transfer(ctx, from, image.NewStore(imageRef))
}

// begin has the content prefetched that the node lacks.
func (p *puller) begin(ctx context.Context, desc ocispec.Descriptor) (end func(), ok bool) {
	_, err := p.contents.Info(ctx, desc.Digest)
	return func() {}, errdefs.IsNotFound(err)
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

// mirrored are a mirror and the registry behind it, which speak HTTP/2 where they have TLS.
func mirrored(t *testing.T, tls bool) ([]*resolvertest.Registry, string) {
	t.Helper()
	if !tls {
		return registries(t, 2)
	}
	list, _ := registries(t, 2, resolvertest.WithTLS())
	return list, fmt.Sprintf("server = %q\nskip_verify = true\n[host.%q]\nskip_verify = true\n", list[1].URL(), list[0].URL())
}

func TestPullIsPinned(t *testing.T) {
	users := map[string]string{username: password}
	list, hosts := registries(t, 1, resolvertest.WithTokenAuth(users))
	r := list[0]
	r.Forget()
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Credentials: alice})
	source, err := p.pull(t, func() {
		if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(2, 1, 100)); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	name, desc, err := source.Resolve(t.Context())
	if err != nil || name != imageRef || source.(interface{ Image() string }).Image() != imageRef || !strings.Contains(fmt.Sprint(source), desc.Digest.String()) {
		t.Errorf("got %q, %v, %v, %s", name, desc, err, source)
	}
	want := provenance.Provenance{Reference: r.Host() + "/team/app:v1", Hosts: []string{r.Host()}}
	if got := source.Served(); got.Reference != want.Reference || !slices.Equal(got.Hosts, want.Hosts) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// The check: HEAD, token, HEAD. The pull, with the same token: manifest,
	// config, three layers.
	if n := r.Count(resolvertest.Of("", resolvertest.Tokens)); n != 1 {
		t.Errorf("%d tokens, want 1", n)
	}
	if n := r.Count(resolvertest.NoProbe); n != 3+5 {
		t.Errorf("%d requests, want 8: %+v", n, r.Requests())
	}
	if n := r.Used(map[string]bool{}); n > 4 {
		t.Errorf("%d connections", n)
	}

	// Content that is there is not fetched, so nobody served it.
	again := p.session.Source(desc)
	if err := p.transfer(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if got := again.Served(); got.Reference != "" || len(got.Hosts) != 0 {
		t.Errorf("got %+v", got)
	}
	if again.Failure(nil) != nil {
		t.Error("no error is judged as a failure")
	}
}

func TestServedBySeveralHosts(t *testing.T) {
	list, hosts := registries(t, 3)
	list[0].Status(resolvertest.Blobs, http.StatusNotFound)
	list[1].Status(resolvertest.Manifests, http.StatusServiceUnavailable)
	list[1].Status(resolvertest.Blobs, http.StatusServiceUnavailable)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := source.Served()
	if got.Reference != list[0].Host()+"/team/app:v1" || !slices.Equal(got.Hosts, []string{list[0].Host(), list[2].Host()}) {
		t.Errorf("got %+v", got)
	}
	for _, err := range []error{errors.New("no space"), context.Canceled} {
		if cause := source.Failure(err); cause != nil {
			t.Errorf("%v: hosts that were not needed are blamed: %v", err, cause)
		}
	}
	if n := list[1].Count(resolvertest.Of("", resolvertest.Blobs)); n < health.BreakAfter || n > 4 {
		t.Errorf("the mirror was asked %d times for blobs, want at most once for each of 4", n)
	}
}

// Large layers can be fetched in pieces side by side.
func TestServedInPieces(t *testing.T) {
	list, hosts := registries(t, 1)
	p := newPuller(t, pieces, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := source.Served(); !slices.Equal(got.Hosts, []string{list[0].Host()}) {
		t.Errorf("got %+v", got)
	}
}

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

func TestSourceOfAPath(t *testing.T) {
	r := resolvertest.New(t)
	if _, err := r.Push(t.Context(), "proxy/team/app:v1", resolvertest.Image(1, 1, 100)); err != nil {
		t.Fatal(err)
	}
	hosts := fmt.Sprintf("server = \"%s/v2/proxy\"\noverride_path = true\n", r.URL())
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	source, err := p.pull(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := source.Served().Reference, r.Host()+"/proxy/team/app:v1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A descriptor from a manifest is the registry's: nothing in it may panic.
func TestFetchOfOddDescriptors(t *testing.T) {
	list, hosts := registries(t, 1)
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
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
