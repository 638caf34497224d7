// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// caller is one that pulls with a pull secret; the zero value has none.
type caller struct{ user, password string }

// The callers. The registry knows alice, bob and eve, and lets alice and bob
// have what is private; in public repositories it lets everybody.
var (
	alice  = caller{"alice", `Pa55 of alice: %&+/=?"\<é>`}
	bob    = caller{"bob", "Pa55-of-bob-0123456789"}
	eve    = caller{"eve", "Pa55-of-eve-0123456789"} // may have nothing
	wrong  = caller{"alice", "not-the-password-of-alice"}
	nobody = caller{}
)

// secret sends the caller's credentials, as the kubelet does.
func (c caller) secret() node.PullOption {
	if c == nobody {
		return node.Auth(nil)
	}
	return node.Credentials(c.user, c.password)
}

func (c caller) String() string {
	switch c {
	case nobody:
		return "nobody"
	case wrong:
		return "a wrong secret"
	}
	return c.user
}

// guarded is a registry that knows the callers, under a name of the node's.
type guarded struct {
	*resolvertest.Registry
	name string

	mu     sync.Mutex
	denied map[string]bool // "user repository"
}

// guard is how a registry with these users has callers show who they are.
type guard func(users map[string]string) resolvertest.Option

// newGuarded starts a registry. More users than the callers may have what is
// private, too.
func newGuarded(t testing.TB, kind guard, name string, more ...caller) *guarded {
	t.Helper()
	users := map[string]string{}
	for _, u := range append([]caller{alice, bob, eve}, more...) {
		users[u.user] = u.password
	}
	g := &guarded{Registry: resolvertest.New(t, kind(users)), name: name, denied: map[string]bool{}}
	g.Allow(func(user, repository string) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.denied[user+" "+repository] {
			return false
		}
		return strings.HasPrefix(repository, "public/") || user != "" && user != eve.user
	})
	return g
}

// deny shuts a user out of a repository, or lets it in again. The tokens that
// are out are worth nothing any more.
func (g *guarded) deny(user, repository string, denied bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied[user+" "+repository] = denied
	g.RevokeTokens()
}

// serve makes the registry known to the node under its name.
func (g *guarded) serve(n *nodetest.Node) { n.Serve(g.name, g.Registry) }

// scene gives a test a repository of its own.
func (g *guarded) scene(t testing.TB, n *nodetest.Node, repo string) *scene {
	t.Helper()
	own := n.In(t)
	own.Registry = g.Registry
	return &scene{Node: own, g: g, repo: repo}
}
