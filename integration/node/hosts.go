// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// HostsDirs returns the directories of hosts.toml files, in CRI's order.
func (n *Node) HostsDirs() []string {
	var dirs []string
	for i := range max(cmp.Or(n.Options.Hosts, 1), 0) {
		dirs = append(dirs, n.Path(fmt.Sprintf("hosts%d", i)))
	}
	return dirs
}

// WriteHosts writes the hosts.toml of a registry's name, in the first directory.
func (n *Node) WriteHosts(name, content string) error {
	return n.Write(filepath.Join(n.HostsDirs()[0], name, "hosts.toml"), content)
}

// Serve writes the hosts.toml by which that registry is the one that the name
// says, with mirrors in front of it, in their order.
func (n *Node) Serve(name string, r *resolvertest.Registry, mirrors ...*resolvertest.Registry) error {
	content, err := n.Server(r)
	if err != nil {
		return err
	}
	for _, m := range mirrors {
		table, err := n.Mirror(m, "")
		if err != nil {
			return err
		}
		content += table
	}
	return n.WriteHosts(name, content)
}

// Server returns the lines of hosts.toml that make r the registry itself.
func (n *Node) Server(r *resolvertest.Registry) (string, error) {
	trust, err := n.trust(r)
	return fmt.Sprintf("server = %q\n%s", r.URL(), trust), err
}

// Mirror returns the table of hosts.toml for r as a mirror that does
// everything but push, with more lines of that table.
func (n *Node) Mirror(r *resolvertest.Registry, lines string) (string, error) {
	trust, err := n.trust(r)
	return fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n%s%s\n", r.URL(), trust, lines), err
}

// trust returns the lines of hosts.toml that a registry with TLS needs.
func (n *Node) trust(r *resolvertest.Registry) (string, error) {
	if r.CAPEM() == nil {
		return "", nil
	}
	path := n.Path("files", r.Host()+".ca.pem")
	return fmt.Sprintf("ca = %q\n", path), n.Write(path, string(r.CAPEM()))
}
