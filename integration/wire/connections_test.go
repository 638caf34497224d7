// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// patient leaves a check more time than any machine needs.
var patient = nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2m"`)

// TestChallengeIsRemembered holds that a daemon asks one repository of a registry what it
// wants, for each caller, by HTTP/2.
func TestChallengeIsRemembered(t *testing.T) {
	t.Parallel()
	users := map[string]string{"alice": "secret of alice", "bob": "secret of bob"}
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTLS(), resolvertest.WithTokenAuth(users)), patient)
	var refs []string
	for i := range int64(4) {
		name := fmt.Sprintf("team/%d:1", i)
		n.Push(name, nodetest.Image(i))
		refs = append(refs, nodetest.Named(name))
	}
	// checkAll returns the challenges and the requests for tokens that it takes.
	checkAll := func(user string) (challenges, tokens int) {
		t.Helper()
		n.Registry.Forget()
		for _, ref := range refs {
			n.MustPull(ref, node.Credentials(user, users[user]))
		}
		all, _ := connections{}.asked(n)
		for _, r := range all {
			if r.Status == http.StatusUnauthorized {
				challenges++
			}
			if resolvertest.Of(http.MethodPost, resolvertest.Tokens)(r) {
				tokens++
			}
		}
		return challenges, tokens
	}
	checkAll("alice")
	n.Restart()
	challenges, tokens := checkAll("alice")
	nodetest.Want(t, "challenges", challenges, 1)
	nodetest.Want(t, "requests for tokens", tokens, len(refs))
	challenges, _ = checkAll("bob")
	nodetest.Want(t, "challenges of another caller", challenges, 1)
	for _, r := range n.Registry.Requests() {
		if want := map[bool]string{true: "HTTP/1.1", false: "HTTP/2.0"}[resolvertest.Probe(r)]; r.Proto != want {
			t.Errorf("%s %s by %s, want %s", r.Method, r.Path, r.Proto, want)
		}
	}
}

// TestDeadConnections holds that connections which a balancer has forgotten make no
// registry unreachable.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]resolvertest.Option{
		"HTTP/1.1 without TLS": nil,
		"HTTP/1.1":             {resolvertest.WithTLS(), resolvertest.WithoutHTTP2()},
		"HTTP/2":               {resolvertest.WithTLS()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, resolvertest.New(t, options...), patient)
			between := newBalancer(t, n.Registry.Host())
			n.WriteHosts("registry.test", strings.ReplaceAll(n.Server(n.Registry), "//"+n.Registry.Host(), "//"+between.address))
			n.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			for range 3 {
				n.MustPull(ref)
				between.forget()
				mark := n.Mark()
				n.MustPull(ref)
				nodetest.Want(t, "outcome over a dead connection", n.Decision(mark, ref).Outcome, "Unchanged")
			}
			between.forget()
			changed := n.Push("app:1", nodetest.Image(2))
			n.MustPull(ref)
			nodetest.Want(t, "image after a change", n.Target(ref), changed)
		})
	}
}
