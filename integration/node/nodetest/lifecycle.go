// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	"github.com/containerd/containerd/v2/core/leases"

	"github.com/pullwarden/pullwarden/integration/node"
)

// Run starts the process and waits until it answers for its plugins.
func (n *Node) Run() {
	n.T.Helper()
	n.Must(n.Node.Run(n.context()))
}

// Start starts the process and waits until CRI answers.
func (n *Node) Start() {
	n.T.Helper()
	n.Must(n.Node.Start(n.context()))
}

// Stop ends the daemon as an operator does. An error fails the test, and does
// not end it.
func (n *Node) Stop() {
	n.T.Helper()
	if err := n.Node.Stop(); err != nil {
		n.T.Error(err)
	}
}

// Kill ends the daemon with SIGKILL. An error fails the test, and does not end
// it.
func (n *Node) Kill() {
	n.T.Helper()
	if err := n.Node.Kill(); err != nil {
		n.T.Error(err)
	}
}

// Restart stops the daemon where it runs, and starts it on the same root, with
// the options on top of those it had.
func (n *Node) Restart(opts ...Option) {
	n.T.Helper()
	n.Stop()
	for _, opt := range opts {
		opt(&n.Options)
	}
	n.Start()
}

// Plugin returns what the daemon says of a plugin, nil where it has none of
// that type and ID.
func (n *Node) Plugin(typ, id string) *introspection.Plugin {
	n.T.Helper()
	p, err := n.Node.Plugin(n.context(), typ, id)
	n.Must(err)
	return p
}

// Decisions returns the decisions about an image since the mark.
func (n *Node) Decisions(since node.Mark, image string) []node.Decision {
	n.T.Helper()
	all, err := n.Node.Decisions(since, image)
	n.Must(err)
	return all
}

// Decision returns the decision about an image since the mark, of which there
// must be one.
func (n *Node) Decision(since node.Mark, image string) node.Decision {
	n.T.Helper()
	d, err := n.Node.Decision(since, image)
	n.Must(err)
	return d
}

// Told waits for the one decision about an image since the mark: of an observed pull
// it comes after the answer.
func (n *Node) Told(since node.Mark, image string) node.Decision {
	n.T.Helper()
	Eventually(n.T, "what would have been decided about "+image+" is told", func() bool {
		return len(n.Decisions(since, image)) > 0
	})
	return n.Decision(since, image)
}

// LogLines returns the lines of the log since the mark that have all of these
// words.
func (n *Node) LogLines(since node.Mark, words ...string) []string {
	n.T.Helper()
	lines, err := n.Node.LogLines(since, words...)
	n.Must(err)
	return lines
}

// CollectGarbage has containerd collect garbage, and waits for that: layers that may be discarded are gone
// then.
func (n *Node) CollectGarbage() {
	n.T.Helper()
	ctx := n.T.Context()
	lease, err := n.Client.LeasesService().Create(ctx, leases.WithRandomID())
	n.Must(err)
	n.Must(n.Client.LeasesService().Delete(ctx, lease, leases.SynchronousDelete))
}
