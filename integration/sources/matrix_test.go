// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

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
	n := nodetest.Start(t)
	for i, row := range matrixRows {
		t.Run(row.what, func(t *testing.T) {
			m := matrix{
				Node:   n.In(t).With(resolvertest.New(t)),
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
	t := m.T
	hosts := strings.NewReplacer("{m}", m.mirror.Host(), "{n}", m.second.Host(), "{o}", m.Registry.Host())
	name := hosts.Replace(row.name)
	if name == "" {
		name = "registry.test"
	}
	if row.hosts != nil {
		m.WriteHosts(name, row.hosts(m))
	}
	if row.fault != nil {
		row.fault(m)
	}
	for form, by := range map[string]string{"tag": row.byTag, "digest": row.byHash} {
		dgst := m.everywhere(seed, form)
		ref := ":" + form
		if form == "digest" {
			ref = "@" + dgst.String()
		}
		full := name + "/" + m.repo + ref
		m.MustPull(full, node.Hint(row.hint...))

		wanted := map[string]string{
			"pull-source":     strings.ReplaceAll(hosts.Replace(row.source), "{ref}", ref),
			"verified-digest": dgst.String(),
			"verified-by":     hosts.Replace(by),
			"has-layers":      "true",
		}
		if row.content != "" {
			wanted["content-sources"] = hosts.Replace(row.content)
		}
		for _, record := range []string{full, name + "/" + m.repo + "@" + dgst.String()} {
			wanted["record"] = dgst.String() + " " + record
			got := m.Labels(record)
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
		m.WantRunnable(full)
	}
}

// everywhere pushes an image to all registries of the row: under its path too.
func (m matrix) everywhere(seed int64, form string) digest.Digest {
	img := resolvertest.Image(1000+2*seed+int64(len(form)%2), 2, 500)
	for _, r := range []*resolvertest.Registry{m.mirror, m.second, m.Registry} {
		m.PushTo(r, "proxy/cache/"+m.repo+":"+form, img)
		m.PushTo(r, m.repo+":"+form, img)
	}
	return m.PushTo(m.Registry, m.repo+":"+form, img)
}

// TestSourceDockerHub holds that Docker Hub is called what references call it,
// not what its API is called. Its daemon has a proxy that plays the API.
func TestSourceDockerHub(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	n := nodetest.Start(t, nodetest.Env("HTTP_PROXY="+r.URL()))
	n.WriteHosts("docker.io", `server = "http://registry-1.docker.io"`)
	n.PushTo(r, "library/app:1", nodetest.Image(1))
	n.MustPull("app:1")
	got := n.Labels("docker.io/library/app:1")
	nodetest.Want(t, "pull source", got["pull-source"], "docker.io/library/app:1")
	nodetest.Want(t, "verified by", got["verified-by"], "registry-1.docker.io")
}
