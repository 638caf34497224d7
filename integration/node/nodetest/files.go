// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import "github.com/pullwarden/pullwarden/resolver/resolvertest"

// Serve writes the hosts.toml by which that registry is the one that the name
// says, with mirrors in front of it, in their order.
func (n *Node) Serve(name string, r *resolvertest.Registry, mirrors ...*resolvertest.Registry) {
	n.T.Helper()
	n.Must(n.Node.Serve(name, r, mirrors...))
}

// WriteHosts writes the hosts.toml of a registry's name, in the first directory.
func (n *Node) WriteHosts(name, content string) {
	n.T.Helper()
	n.Must(n.Node.WriteHosts(name, content))
}

// Server returns the lines of hosts.toml that make r the registry itself.
func (n *Node) Server(r *resolvertest.Registry) string {
	n.T.Helper()
	lines, err := n.Node.Server(r)
	n.Must(err)
	return lines
}

// Mirror returns the table of hosts.toml for r as a mirror that does
// everything but push, with more lines of that table.
func (n *Node) Mirror(r *resolvertest.Registry, lines string) string {
	n.T.Helper()
	table, err := n.Node.Mirror(r, lines)
	n.Must(err)
	return table
}

// WriteRules writes a rule file.
func (n *Node) WriteRules(name, content string) {
	n.T.Helper()
	n.Must(n.Node.WriteRules(name, content))
}

// RemoveRules removes a rule file.
func (n *Node) RemoveRules(name string) {
	n.T.Helper()
	n.Must(n.Node.RemoveRules(name))
}

// Write replaces a file in one step, so that no reader sees half of it.
func (n *Node) Write(path, content string) {
	n.T.Helper()
	n.Must(n.Node.Write(path, content))
}
