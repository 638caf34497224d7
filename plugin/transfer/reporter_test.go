// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// setHosts tells the tracker the hosts of pulls without a plan.
func (n *node) setHosts(aliases func(ctx context.Context, reference string, hostDirs []string, defaultScheme string) ([]hosts.Alias, error)) {
	config := n.tracker.Load().config
	config.Hosts = aliases
	n.Track(config)
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
	ctx := context.WithValue(n.ctx, hostConfigKey{}, hostConfig{dirs: []string{dir}})
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

// reportedPulls are pulls from a mirror, with an origin behind it.
var reportedPulls = []struct {
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
	{what: "a mirror with HTTP/2", options: []resolvertest.Option{resolvertest.WithTLS()}, source: "{m}/app:1"},
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
}

// Of pulls with a resolver of containerd's own, the hosts are seen in their
// requests.
func TestReportedSources(t *testing.T) {
	for _, tc := range reportedPulls {
		t.Run(tc.what, func(t *testing.T) {
			n := newNode(t, true)
			n.setHosts(hosts.Aliases)
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
func TestReportedRedirects(t *testing.T) {
	n := newNode(t, true)
	n.setHosts(hosts.Aliases)
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
func TestReportedHostUnderSeveralPaths(t *testing.T) {
	n := newNode(t, true)
	n.setHosts(hosts.Aliases)
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
func TestReportedHostsThatAreNotKnown(t *testing.T) {
	r := resolvertest.New(t)
	push(t, "app", r)
	for name, aliases := range map[string]func() ([]hosts.Alias, error){
		"an error": func() ([]hosts.Alias, error) { return nil, errGone },
		"other hosts": func() ([]hosts.Alias, error) {
			return []hosts.Alias{{Host: "other.test", Name: "other.test", Reference: "other.test/app:1"}}, nil
		},
	} {
		n := newNode(t, true)
		n.setHosts(func(context.Context, string, []string, string) ([]hosts.Alias, error) { return aliases() })
		source, content, err := n.pullFrom(fmt.Sprintf("server = %q", r.URL()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"pulled-at": "2026-01-02T12:00:00Z"}, own(n.labels(appName))); diff != "" {
			t.Errorf("%s: %q, %q: labels (-want +got):\n%s", name, source, content, diff)
		}
	}
}

// A mirror that redirects to another host of the image cannot be told from that: both are asked by
// the client itself.
func TestReportedRedirectsToAnotherHost(t *testing.T) {
	n := newNode(t, true)
	n.setHosts(hosts.Aliases)
	mirror, origin := resolvertest.New(t), resolvertest.New(t)
	push(t, "app", mirror, origin)
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") || strings.Contains(r.URL.Path, "/manifests/") {
			http.Redirect(w, r, origin.URL()+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	source, content, err := n.pullFrom(fmt.Sprintf("server = %q\n[host.%q]\n", origin.URL(), mirror.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if source != origin.Host()+"/app:1" || content != "" {
		t.Errorf("%q and %q, want %s alone", source, content, origin.Host())
	}
}
