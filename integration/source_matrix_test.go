// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// matrixRow is one way in which hosts.toml can have an image served. The
// mirror, a second mirror and the registry itself all have the image app:1.
type matrixRow struct {
	what    string
	name    string // that the image is asked by; "" = registry.test
	repo    string // of the image there; "" = app
	hosts   func(m matrix) string
	trouble func(m matrix)
	hint    []string // of the pod
	// What is to be told, with {m}, {n} and {o} for the hosts and {ref} for
	// ":1" or "@sha256:…".
	source  string
	byTag   string // the host that resolves the tag
	byHash  string // the host that confirms the digest
	content string
}

// matrix is where a row is tried.
type matrix struct {
	*node
	mirror, second *resolvertest.Registry
	repo           string
}

// capable returns the table of hosts.toml for a mirror with those capabilities.
func capable(r *resolvertest.Registry, path, capabilities, lines string) string {
	return fmt.Sprintf("[host.%q]\ncapabilities = [%s]\n%s\n", r.URL()+path, capabilities, lines)
}

var matrixRows = []matrixRow{
	{
		what: "no mirror, no hosts.toml", name: "{o}",
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "no mirror",
		hosts:  func(m matrix) string { return m.server(m.r) },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "a mirror that may pull and resolve",
		hosts:  func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what:   "a mirror that may do everything by default",
		hosts:  func(m matrix) string { return m.server(m.r) + fmt.Sprintf("[host.%q]\n", m.mirror.URL()) },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what:   "a mirror that may pull",
		hosts:  func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"pull"`, "") },
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{m}",
	},
	{
		// containerd cannot have a host that only resolves: what may serve
		// content is decided for all hosts together.
		what:   "a mirror that may resolve",
		hosts:  func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"resolve"`, "") },
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "a mirror that may pull and resolve, while the tag is the origin's",
		hosts:  func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		hint:   []string{"resolve-from", "Origin"},
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what: "a mirror that may pull and has nothing",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "", `"pull"`, "")
		},
		trouble: func(m matrix) { m.mirror.Status(resolvertest.All, http.StatusNotFound) },
		source:  "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:    "a mirror that is down",
		hosts:   func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		trouble: func(m matrix) { m.mirror.Refuse() },
		source:  "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what: "two mirrors, the first has nothing",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "", `"pull", "resolve"`, "") + capable(m.second, "", `"pull", "resolve"`, "")
		},
		trouble: func(m matrix) { m.mirror.Status(resolvertest.Manifests, http.StatusNotFound) },
		source:  "{n}/app{ref}", byTag: "{n}", byHash: "{n}", content: "{m},{n}",
	},
	{
		what: "a mirror that may pull, and one that may resolve too",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "", `"pull"`, "") + capable(m.second, "", `"pull", "resolve"`, "")
		},
		source: "{m}/app{ref}", byTag: "{n}", byHash: "{m}",
	},
	{
		what: "a mirror under a path of its API (override_path)",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "/v2/proxy/cache", `"pull", "resolve"`, "override_path = true")
		},
		source: "{m}/proxy/cache/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a mirror that may pull under a path of its API (override_path)",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "/v2/proxy/cache", `"pull"`, "override_path = true")
		},
		source: "{m}/proxy/cache/app{ref}", byTag: "{o}", byHash: "{m}",
	},
	{
		// What comes before the API is nothing that a reference could say.
		what: "a mirror with its API under a path",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "/prefix", `"pull", "resolve"`, "")
		},
		trouble: func(m matrix) { behindPrefix(m.mirror, "/prefix") },
		source:  "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a mirror with its API under a path (override_path)",
		hosts: func(m matrix) string {
			return m.server(m.r) + capable(m.mirror, "/prefix/v2", `"pull", "resolve"`, "override_path = true")
		},
		trouble: func(m matrix) { behindPrefix(m.mirror, "/prefix") },
		source:  "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "Docker Hub by a mirror", name: "docker.io", repo: "library/app",
		hosts:  func(m matrix) string { return m.server(m.r) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		source: "{m}/library/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a registry that is moved", name: "old.test",
		hosts:  func(m matrix) string { return m.server(m.r) },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
}

// behindPrefix lets a registry answer below a path.
func behindPrefix(r *resolvertest.Registry, prefix string) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if path, ok := strings.CutPrefix(req.URL.Path, prefix); ok {
			inner := req.Clone(req.Context())
			inner.URL = &url.URL{Path: path, RawQuery: req.URL.RawQuery}
			inner.RequestURI = inner.URL.RequestURI()
			req = inner
		}
		next.ServeHTTP(w, req)
	})
}

// TestSourceMatrix tells the source for everything that hosts.toml can express.
func TestSourceMatrix(t *testing.T) {
	t.Parallel()
	d := start(t)
	for i, row := range matrixRows {
		t.Run(row.what, func(t *testing.T) {
			m := matrix{
				node:   &node{daemon: d.in(t), r: resolvertest.New(t)},
				mirror: resolvertest.New(t), second: resolvertest.New(t),
				repo: row.repo,
			}
			if m.repo == "" {
				m.repo = "app"
			}
			m.try(int64(i), row)
		})
	}
}

// try pulls the row's image by its tag, and another one by digest.
func (m matrix) try(seed int64, row matrixRow) {
	t := m.t
	hosts := strings.NewReplacer("{m}", m.mirror.Host(), "{n}", m.second.Host(), "{o}", m.r.Host())
	name := hosts.Replace(row.name)
	if name == "" {
		name = "registry.test"
	}
	if row.hosts != nil {
		m.hostsTOML(name, row.hosts(m))
	}
	if row.trouble != nil {
		row.trouble(m)
	}
	for form, by := range map[string]string{"tag": row.byTag, "digest": row.byHash} {
		dgst := m.everywhere(seed, form)
		ref := ":" + form
		if form == "digest" {
			ref = "@" + dgst.String()
		}
		full := name + "/" + m.repo + ref
		m.mustPull(full, hint(row.hint...))

		wanted := map[string]string{
			"pull-source":     strings.ReplaceAll(hosts.Replace(row.source), "{ref}", ref),
			"verified-digest": dgst.String(),
			"verified-by":     hosts.Replace(by),
		}
		if row.content != "" {
			wanted["content-sources"] = hosts.Replace(row.content)
		}
		for _, record := range []string{full, name + "/" + m.repo + "@" + dgst.String()} {
			got := m.labels(record)
			for _, key := range []string{"pulled-at", "verified-at", "access.anonymous"} {
				if got[key] == "" {
					t.Errorf("by %s: %s has no %s", form, record, key)
				}
				delete(got, key)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("by %s: labels of %s (-want +got):\n%s", form, record, diff)
			}
		}
		isRunnable(m.daemon, full)
	}
}

// everywhere pushes an image to all registries of the row: under its path too.
func (m matrix) everywhere(seed int64, form string) digest.Digest {
	img := resolvertest.Image(1000+2*seed+int64(len(form)%2), 2, 500)
	for _, r := range []*resolvertest.Registry{m.mirror, m.second, m.r} {
		m.daemon.push(r, "proxy/cache/"+m.repo+":"+form, img)
		m.daemon.push(r, m.repo+":"+form, img)
	}
	return m.daemon.push(m.r, m.repo+":"+form, img)
}

// TestSourceDockerHub holds that Docker Hub is called what references call it,
// not what its API is called. It is not parallel: its daemon has a proxy that
// plays the API.
func TestSourceDockerHub(t *testing.T) {
	r := resolvertest.New(t)
	t.Setenv("HTTP_PROXY", r.URL())
	d := start(t)
	d.hostsTOML("docker.io", `server = "http://registry-1.docker.io"`)
	d.push(r, "library/app:1", image(1))
	d.mustPull("app:1")
	got := d.labels("docker.io/library/app:1")
	want(t, "pull source", got["pull-source"], "docker.io/library/app:1")
	want(t, "verified by", got["verified-by"], "registry-1.docker.io")
}
