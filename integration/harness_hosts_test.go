// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// hostsTOML writes the hosts.toml of a registry's name, in the first directory.
func (d *daemon) hostsTOML(name, content string) {
	d.t.Helper()
	d.must(d.process.WriteHosts(name, content))
}

// origin writes a hosts.toml by which the name is served by that registry.
func (d *daemon) origin(name string, r *resolvertest.Registry) {
	d.t.Helper()
	d.hostsTOML(name, d.server(r))
}

// server returns the lines of hosts.toml that make r the registry itself.
func (d *daemon) server(r *resolvertest.Registry) string {
	d.t.Helper()
	lines, err := d.process.Server(r)
	d.must(err)
	return lines
}

// mirror returns the table of hosts.toml for r as a mirror that does
// everything but push, with more lines of that table.
func (d *daemon) mirror(r *resolvertest.Registry, lines string) string {
	d.t.Helper()
	table, err := d.process.Mirror(r, lines)
	d.must(err)
	return table
}

// file writes a file in the daemon's directory and returns its path.
func (d *daemon) file(name string, content []byte) string {
	d.t.Helper()
	path := d.path("files", name)
	d.write(path, string(content))
	return path
}

// rules writes a rule file.
func (d *daemon) rules(name, content string) {
	d.t.Helper()
	d.must(d.process.WriteRules(name, content))
}

// removeRules removes a rule file.
func (d *daemon) removeRules(name string) {
	d.t.Helper()
	d.must(os.Remove(d.path("rules", name)))
}

// push pushes to a registry and ends the test on an error.
func (d *daemon) push(r *resolvertest.Registry, ref string, what resolvertest.Pushable) digest.Digest {
	d.t.Helper()
	dgst, err := r.Push(d.t.Context(), ref, what)
	d.must(err)
	return dgst
}
