// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/v2/core/streaming"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// tracing makes the node know hosts as the plugin does.
func (n *node) tracing() {
	r := n.recorder.Load().Recording
	r.Hosts = func(ctx context.Context, ref string, c HostConfig) ([]Host, error) {
		aliases, err := resolver.Aliases(ctx, ref, c.Dir, c.DefaultScheme)
		var hosts []Host
		for _, a := range aliases {
			hosts = append(hosts, Host{a.Host, a.Name, a.Reference})
		}
		return hosts, err
	}
	n.Record(r)
}

// pullFrom pulls appName as a client of the transfer service does.
func (n *node) pullFrom(hostsTOML string) (source, content string, err error) {
	n.t.Helper()
	dir := n.t.TempDir()
	path := filepath.Join(dir, "registry.test", "hosts.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(hostsTOML), 0o600); err != nil {
		n.t.Fatal(err)
	}
	src, err := registry.NewOCIRegistry(n.ctx, appName, registry.WithHostDir(dir))
	if err != nil {
		n.t.Fatal(err)
	}
	ctx := context.WithValue(n.ctx, hostConfigKey{}, HostConfig{Dir: dir})
	err = n.Transfer(ctx, src, image.NewStore(appName))
	labels := own(n.labels(appName))
	return labels["pull-source"], labels["content-sources"], err
}

func toml(hosts ...string) string { return strings.Join(hosts, "\n") }

func mirrorAt(url, lines string) string {
	return fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\nskip_verify = true\n%s", url, lines)
}

// push puts the same image into each registry, under that repository.
func push(t *testing.T, repo string, registries ...*resolvertest.Registry) {
	t.Helper()
	for _, r := range registries {
		if _, err := r.Push(t.Context(), repo+":1", resolvertest.Image(1, 2, 50_000)); err != nil {
			t.Fatal(err)
		}
	}
}

// Of pulls with a resolver of containerd's own, the hosts are seen in their
// requests.
func TestTracedSources(t *testing.T) {
	secure := resolvertest.WithTLS()
	for _, tc := range []struct {
		what    string
		options []resolvertest.Option
		repo    string // of the mirror; "" = app
		url     string // what the mirror's URL ends with
		lines   string // of hosts.toml
		trouble func(mirror *resolvertest.Registry)
		// with {m} for the mirror and {o} for the origin
		source, content string
	}{
		{what: "a mirror", source: "{m}/app:1"},
		{what: "a mirror with HTTP/2", options: []resolvertest.Option{secure}, source: "{m}/app:1"},
		{what: "a mirror under a path", repo: "proxy/app", url: "/v2/proxy", lines: "override_path = true", source: "{m}/proxy/app:1"},
		{
			what: "a mirror with tokens", options: []resolvertest.Option{resolvertest.WithTokenAuth(nil)},
			trouble: func(m *resolvertest.Registry) { m.Allow(func(string, string) bool { return true }) },
			source:  "{m}/app:1",
		},
		{
			what:    "a mirror without blobs",
			trouble: func(m *resolvertest.Registry) { m.Status(resolvertest.Blobs, http.StatusNotFound) },
			source:  "{m}/app:1", content: "{m},{o}",
		},
		{
			what: "a mirror without manifests by digest",
			trouble: func(m *resolvertest.Registry) {
				m.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
						w.WriteHeader(http.StatusNotFound)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
			source: "{o}/app:1", content: "{m},{o}",
		},
		{
			what: "a mirror that goes away in the middle of each layer",
			trouble: func(m *resolvertest.Registry) {
				m.DropMidBlob(20_000)
				m.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Header.Get("Range") != "" {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
			source: "{m}/app:1", content: "{m},{o}",
		},
		{
			what:    "a mirror that is down",
			trouble: func(m *resolvertest.Registry) { m.Refuse() },
			source:  "{o}/app:1",
		},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := newNode(t, true)
			n.tracing()
			mirror, origin := resolvertest.New(t, tc.options...), resolvertest.New(t)
			repo := tc.repo
			if repo == "" {
				repo = "app"
			}
			push(t, repo, mirror)
			push(t, "app", origin)
			if tc.trouble != nil {
				tc.trouble(mirror)
			}
			source, content, err := n.pullFrom(toml(fmt.Sprintf("server = %q", origin.URL()), mirrorAt(mirror.URL()+tc.url, tc.lines)))
			if err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer("{m}", mirror.Host(), "{o}", origin.Host())
			if source != names.Replace(tc.source) || content != names.Replace(tc.content) {
				t.Errorf("%q and %q, want %q and %q", source, content, names.Replace(tc.source), names.Replace(tc.content))
			}
		})
	}
}

// A host that sends the client elsewhere is the source: it is what the operator
// has configured and trusts.
func TestTracedRedirects(t *testing.T) {
	n := newNode(t, true)
	n.tracing()
	origin, storage := resolvertest.New(t), resolvertest.New(t)
	push(t, "app", origin, storage)
	origin.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, storage.URL()+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	source, content, err := n.pullFrom(fmt.Sprintf("server = %q", origin.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if source != origin.Host()+"/app:1" || content != "" {
		t.Errorf("%q and %q", source, content)
	}
	if storage.Count(nil) == 0 {
		t.Error("nobody was sent to the storage")
	}
}

// The same host under two paths: who served is known, but not what it calls
// the image.
func TestTracedHostUnderSeveralPaths(t *testing.T) {
	n := newNode(t, true)
	n.tracing()
	r := resolvertest.New(t)
	push(t, "two/app", r)
	source, content, err := n.pullFrom(toml(mirrorAt(r.URL()+"/v2/one", "override_path = true"), mirrorAt(r.URL()+"/v2/two", "override_path = true")))
	if err != nil {
		t.Fatal(err)
	}
	if source != "" || content != r.Host() {
		t.Errorf("%q and %q, want only the host", source, content)
	}
}

// Hosts that are not known are not guessed.
func TestTracedHostsThatAreNotKnown(t *testing.T) {
	r := resolvertest.New(t)
	push(t, "app", r)
	for name, hosts := range map[string]func() ([]Host, error){
		"an error":    func() ([]Host, error) { return nil, errGone },
		"other hosts": func() ([]Host, error) { return []Host{{"other.test", "other.test", "other.test/app:1"}}, nil },
	} {
		n := newNode(t, true)
		rec := n.recorder.Load().Recording
		rec.Hosts = func(context.Context, string, HostConfig) ([]Host, error) { return hosts() }
		n.Record(rec)
		source, content, err := n.pullFrom(fmt.Sprintf("server = %q", r.URL()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"pulled-at": "2026-01-02T12:00:00Z"}, own(n.labels(appName))); diff != "" {
			t.Errorf("%s: %q, %q: labels (-want +got):\n%s", name, source, content, diff)
		}
	}
}

// The API keeps what a client says of its hosts, which is nowhere to be read in
// the source that containerd makes of the request.
func TestServerKeepsTheHostConfiguration(t *testing.T) {
	var got HostConfig
	server, err := DecorateServer(&fakeServer{transfer: func(ctx context.Context) { got, _ = ctx.Value(hostConfigKey{}).(HostConfig) }})
	if err != nil {
		t.Fatal(err)
	}
	src, err := registry.NewOCIRegistry(t.Context(), appName, registry.WithHostDir("/etc/hosts.d"), registry.WithDefaultScheme("http"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := src.MarshalAny(t.Context(), noStreams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what   string
		source *anypb.Any
		want   HostConfig
	}{
		{"a registry", &anypb.Any{TypeUrl: packed.GetTypeUrl(), Value: packed.GetValue()}, HostConfig{Dir: "/etc/hosts.d", DefaultScheme: "http"}},
		{"broken", &anypb.Any{TypeUrl: packed.GetTypeUrl(), Value: []byte{1}}, HostConfig{}},
		{"something else", &anypb.Any{TypeUrl: "else"}, HostConfig{}},
		{"nothing", nil, HostConfig{}},
	} {
		got = HostConfig{Dir: "not set"}
		if _, err := server.Transfer(t.Context(), &transferapi.TransferRequest{Source: tc.source}); err != nil {
			t.Fatal(err)
		}
		if got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.what, got, tc.want)
		}
	}
	if _, err := DecorateServer(httptest.NewRecorder()); err == nil {
		t.Error("something else was accepted")
	}
}

type fakeServer struct {
	transferapi.UnimplementedTransferServer
	transfer func(context.Context)
}

func (s *fakeServer) Transfer(ctx context.Context, _ *transferapi.TransferRequest) (*emptypb.Empty, error) {
	s.transfer(ctx)
	return &emptypb.Empty{}, nil
}

type noStreams struct{}

func (noStreams) Create(context.Context, string) (streaming.Stream, error) { return nil, errGone }

// steps is a reader of which each Read asks hosts and returns bytes.
type steps struct {
	asked *asked
	list  []step
}

type step struct {
	asks string // the host that is asked before the bytes come, or after them
	n    int
}

func (s *steps) Read([]byte) (int, error) {
	if len(s.list) == 0 {
		return 0, io.EOF
	}
	next := s.list[0]
	s.list = s.list[1:]
	if next.asks != "" {
		s.asked.trace().WroteHeaderField("Host", []string{next.asks})
	}
	return next.n, nil
}

func (*steps) Seek(offset int64, _ int) (int64, error) { return offset, nil }
func (*steps) Close() error                            { return nil }

// Docker's reader asks for the rest as soon as a connection breaks, while it
// still has bytes of it to return.
func TestTracedReader(t *testing.T) {
	for _, tc := range []struct {
		what  string
		steps []step
		seek  int // the step before which it is sought; 0 = none
		want  string
	}{
		{"one host", []step{{"a", 5}, {"", 5}}, 0, "a a"},
		{"no bytes", []step{{"a", 0}}, 0, ""},
		{"the second gives the rest", []step{{"a", 5}, {"b", 0}, {"", 5}}, 0, "a b"},
		{"bytes of the first while the second is asked", []step{{"a", 5}, {"b", 5}}, 0, "a a"},
		{"the first gives nothing", []step{{"a", 0}, {"b", 0}, {"", 5}}, 0, "b"},
		{"sought", []step{{"a", 5}, {"b", 5}}, 1, "a b"},
		{"a token server in between", []step{{"a", 0}, {"auth", 0}, {"", 5}}, 0, "a"},
		{"a host that nobody knows", []step{{"cdn", 5}}, 0, ""},
	} {
		var credited []string
		a := &asked{hosts: []Host{{Address: "a", Name: "a"}, {Address: "b", Name: "b"}}}
		inner := &steps{asked: a, list: tc.steps}
		r := &tracedSeeker{seeker: inner, tracedReader: &tracedReader{
			ReadCloser: inner, asked: a, credit: func(h Host) { credited = append(credited, h.Name) },
		}}
		for i := 0; ; i++ {
			if i > 0 && i == tc.seek {
				if _, err := r.Seek(1, io.SeekStart); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Read(nil); err != nil {
				break
			}
		}
		if got := strings.Join(credited, " "); got != tc.want {
			t.Errorf("%s: credit for %q, want %q", tc.what, got, tc.want)
		}
	}
}
