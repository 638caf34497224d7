// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// node is a daemon and the registry behind the name registry.test.
type node struct {
	*daemon
	r *resolvertest.Registry
}

func newNode(t testing.TB, opts ...option) *node {
	t.Helper()
	return newNodeWith(t, resolvertest.New(t), opts...)
}

func newNodeWith(t testing.TB, r *resolvertest.Registry, opts ...option) *node {
	t.Helper()
	n := &node{daemon: start(t, opts...), r: r}
	n.origin("registry.test", r)
	return n
}

// push pushes "repository:tag" and returns the digest.
func (n *node) push(ref string, what resolvertest.Pushable) digest.Digest {
	n.t.Helper()
	return n.daemon.push(n.r, ref, what)
}

// named returns the name of "repository:tag" on the node.
func named(ref string) string { return "registry.test/" + ref }

// image makes a small image.
func image(seed int64) v1.Image { return resolvertest.Image(seed, 2, 500) }

// restore ends the registry's troubles.
func (n *node) restore() {
	n.t.Helper()
	if err := n.r.Restore(); err != nil {
		n.t.Fatal(err)
	}
}

// requests returns what the registry was asked since Forget, one "METHOD part"
// each.
func (n *node) requests() string {
	var all []string
	for _, r := range n.r.Requests() {
		all = append(all, r.Method+" "+string(r.Part))
	}
	return strings.Join(all, ", ")
}

// decided is a decision as its log line tells it.
type decided struct {
	level, policy, outcome, reason, by, class string
	entry                                     map[string]any
}

// decisions returns what was decided about an image after mark.
func (d *daemon) decisions(mark int, ref string) []decided {
	var all []decided
	for _, e := range d.entries(mark, "pullwarden: ", ref) {
		field := func(key string) string { s, _ := e[key].(string); return s }
		if field("image") == ref && field("outcome") != "" {
			all = append(all, decided{field("level"), field("policy"), field("outcome"), field("reason"), field("decided_by"), field("class"), e})
		}
	}
	return all
}

// decision returns what was decided about an image after mark, which must be
// one decision in one line.
func (d *daemon) decision(mark int, ref string) decided {
	d.t.Helper()
	all := d.decisions(mark, ref)
	if len(all) != 1 {
		d.fatal("%d decisions about %s are in the log, want 1: %v", len(all), ref, all)
	}
	return all[0]
}
