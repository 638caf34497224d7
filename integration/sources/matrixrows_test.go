// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// matrixRow is one way in which hosts.toml can have an image served. The
// mirror, a second mirror and the registry itself all have the image app:1.
type matrixRow struct {
	what  string
	name  string // the registry's in the reference; "" = registry.test
	repo  string // of the image there; "" = app
	hosts func(m matrix) string
	fault func(m matrix)
	hint  []string // of the pod
	// The labels to expect, with {m}, {n} and {o} for the hosts and {ref} for ":1"
	// or "@sha256:…".
	source  string
	byTag   string // the host that resolves the tag
	byHash  string // the host that confirms the digest
	content string
}

// matrix is where a row is tried.
type matrix struct {
	*nodetest.Node
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
		hosts:  func(m matrix) string { return m.Server(m.Registry) },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "a mirror that may pull and resolve",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what:   "a mirror that may do everything by default",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + fmt.Sprintf("[host.%q]\n", m.mirror.URL()) },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what:   "a mirror that may pull",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"pull"`, "") },
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{m}",
	},
	{
		// containerd cannot have a host that only resolves: what may serve
		// content is decided for all hosts together.
		what:   "a mirror that may resolve",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"resolve"`, "") },
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "a mirror that may pull and resolve, while the tag is the origin's",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		hint:   []string{"resolve-from", "Origin"},
		source: "{m}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what: "a mirror that may pull and has nothing",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "", `"pull"`, "")
		},
		fault:  func(m matrix) { m.mirror.Status(resolvertest.All, http.StatusNotFound) },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what:   "a mirror that is down",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		fault:  func(m matrix) { m.mirror.Refuse() },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
	{
		what: "two mirrors, the first has nothing",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "", `"pull", "resolve"`, "") + capable(m.second, "", `"pull", "resolve"`, "")
		},
		fault:  func(m matrix) { m.mirror.Status(resolvertest.Manifests, http.StatusNotFound) },
		source: "{n}/app{ref}", byTag: "{n}", byHash: "{n}", content: "{m},{n}",
	},
	{
		what: "a mirror that may pull, and one that may resolve too",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "", `"pull"`, "") + capable(m.second, "", `"pull", "resolve"`, "")
		},
		source: "{m}/app{ref}", byTag: "{n}", byHash: "{m}",
	},
	{
		what: "a mirror under a path of its API (override_path)",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "/v2/proxy/cache", `"pull", "resolve"`, "override_path = true")
		},
		source: "{m}/proxy/cache/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a mirror that may pull under a path of its API (override_path)",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "/v2/proxy/cache", `"pull"`, "override_path = true")
		},
		source: "{m}/proxy/cache/app{ref}", byTag: "{o}", byHash: "{m}",
	},
	{
		// A reference cannot say what comes before the API.
		what: "a mirror with its API under a path",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "/prefix", `"pull", "resolve"`, "")
		},
		fault:  func(m matrix) { behindPrefix(m.mirror, "/prefix") },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a mirror with its API under a path (override_path)",
		hosts: func(m matrix) string {
			return m.Server(m.Registry) + capable(m.mirror, "/prefix/v2", `"pull", "resolve"`, "override_path = true")
		},
		fault:  func(m matrix) { behindPrefix(m.mirror, "/prefix") },
		source: "{m}/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "Docker Hub by a mirror", name: "docker.io", repo: "library/app",
		hosts:  func(m matrix) string { return m.Server(m.Registry) + capable(m.mirror, "", `"pull", "resolve"`, "") },
		source: "{m}/library/app{ref}", byTag: "{m}", byHash: "{m}",
	},
	{
		what: "a registry that is moved", name: "old.test",
		hosts:  func(m matrix) string { return m.Server(m.Registry) },
		source: "{o}/app{ref}", byTag: "{o}", byHash: "{o}",
	},
}
