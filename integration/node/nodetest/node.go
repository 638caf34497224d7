// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodetest gives tests a node. Its Node is node.Node with a test at its
// side: methods take no context, since that is the test's, and return no error,
// since an error ends the test. Pull is the exception: its errors are what the
// tests are about. MustPull and MustFail judge them.
//
//	func TestMain(m *testing.M) { nodetest.Main(m) }
//
//	func TestUnchanged(t *testing.T) {
//		n := nodetest.New(t, nodetest.Section(`default_policy = "IfDigestChanged"`))
//		n.Push("app:1", nodetest.Image(1))
//		ref := nodetest.Named("app:1")
//		n.MustPull(ref)
//		mark := n.Mark()
//		n.MustPull(ref)
//		nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
//	}
package nodetest

import (
	"context"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Node is a node of one test. It ends with the test, and takes its mounts and
// files with it. A daemon that has met a data race or a panic fails the test.
type Node struct {
	// Node has the same methods with contexts and errors.
	*node.Node
	// T is the test that an error ends.
	T testing.TB
	// Registry is behind the name registry.test; nil where Start or Prepare made
	// the node.
	Registry *resolvertest.Registry
}

// New starts a node with a registry behind the name registry.test.
func New(t testing.TB, opts ...Option) *Node {
	t.Helper()
	return NewWith(t, resolvertest.New(t), opts...)
}

// NewWith starts a node with that registry behind the name registry.test.
func NewWith(t testing.TB, r *resolvertest.Registry, opts ...Option) *Node {
	t.Helper()
	n := Start(t, opts...)
	n.Registry = r
	n.Serve("registry.test", r)
	return n
}

// Start starts a node without a registry.
func Start(t testing.TB, opts ...Option) *Node {
	t.Helper()
	n := Prepare(t, opts...)
	n.Start()
	return n
}

// Prepare makes a node that its Start or Run then starts.
func Prepare(t testing.TB, opts ...Option) *Node {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	setting, err := node.SettingFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	o := node.Options{Binary: binary, Dir: t.TempDir(), Section: []string{"enabled = true"}, NoSync: true}
	o.Apply(setting)
	for _, opt := range opts {
		opt(&o)
	}
	made, err := node.New(o)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Node: made, T: t}
	t.Cleanup(n.cleanup)
	return n
}

// In returns the node for a part of the test.
func (n *Node) In(t testing.TB) *Node { return &Node{Node: n.Node, T: t, Registry: n.Registry} }

// With returns the node with that registry behind the name registry.test.
func (n *Node) With(r *resolvertest.Registry) *Node {
	n.T.Helper()
	with := &Node{Node: n.Node, T: n.T, Registry: r}
	with.Serve("registry.test", r)
	return with
}

// Must ends the test on an error.
func (n *Node) Must(err error) {
	n.T.Helper()
	if err != nil {
		n.T.Fatal(err)
	}
}

// context is that of the test, and lasts through its cleanup.
func (n *Node) context() context.Context { return context.WithoutCancel(n.T.Context()) }

// cleanup leaves nothing behind, and fails the test for what a daemon must
// never log.
func (n *Node) cleanup() {
	n.Stop()
	log, err := n.Log(0)
	if err != nil {
		n.T.Errorf("read the daemon's log: %v", err)
	}
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if _, after, found := strings.Cut(log, bad); found {
			n.T.Errorf("the daemon's log has %q:\n%s", bad, head(bad+after, 60))
		}
	}
	if n.T.Failed() {
		n.T.Logf("the daemon's log:\n%s", n.LogTail(150))
	}
	if err := n.Close(); err != nil {
		n.T.Error(err)
	}
}

// head returns the first lines of a text.
func head(s string, lines int) string {
	all := strings.SplitAfter(s, "\n")
	return strings.Join(all[:min(lines, len(all))], "")
}
