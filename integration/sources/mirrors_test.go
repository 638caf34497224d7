// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// fault is what a registry can be in.
type fault = func(*resolvertest.Registry)

func fine(*resolvertest.Registry) {}

func down(r *resolvertest.Registry) { r.Refuse() }

// portal answers as one does that wants a login first.
func portal(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }

func statusOf(code int) fault {
	return func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, code) }
}

// mirrorOrder is the table of which host confirms a tag, and what happens when
// hosts fail.
var mirrorOrder = []struct {
	name                  string
	first, second, origin fault
	by                    string // who confirms; "" for none
	class                 string
}{
	{"all fine", fine, fine, fine, "first", ""},
	{"first has nothing", statusOf(404), fine, fine, "second", ""},
	{"first is down", down, fine, fine, "second", ""},
	{"first is unavailable", statusOf(503), fine, fine, "second", ""},
	{"first limits", statusOf(429), fine, fine, "second", ""},
	{"first forbids", statusOf(403), fine, fine, "second", ""},
	{"first is a portal", portal, fine, fine, "second", ""},
	{"both mirrors are down", down, down, fine, "origin", ""},
	{"both mirrors have nothing", statusOf(404), statusOf(404), fine, "origin", ""},
	{"nobody answers", down, down, down, "", "unreachable"},
	{"a mirror's 404 proves nothing", statusOf(404), statusOf(404), down, "", "unreachable"},
	{"a mirror's 403 proves nothing", statusOf(403), down, statusOf(503), "", "unavailable"},
	{"the origin's 404 counts", down, down, statusOf(404), "", "not_found"},
	{"the origin's 403 counts", down, down, statusOf(403), "", "forbidden"},
}

// TestMirrorOrder holds that a mirror's failure proves nothing while another
// host answers, and that the class is the origin's when none does.
func TestMirrorOrder(t *testing.T) {
	t.Parallel()
	first, second := resolvertest.New(t), resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1m"`))
	hosts := n.Server(n.Registry) + n.Mirror(first, "") + n.Mirror(second, "")
	n.WriteHosts("registry.test", hosts)
	names := map[string]string{first.Host(): "first", second.Host(): "second", n.Registry.Host(): "origin"}
	for _, r := range []*resolvertest.Registry{first, second, n.Registry} {
		n.PushTo(r, "app:1", nodetest.Image(1))
	}
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	for _, tt := range mirrorOrder {
		t.Run(tt.name, func(t *testing.T) {
			n := n.In(t)
			n.WriteHosts("registry.test", hosts+"# "+tt.name) // no fault before counts
			tt.first(first)
			tt.second(second)
			tt.origin(n.Registry)
			mark := n.Mark()
			_, err := n.Pull(ref)
			nodetest.Want(t, "pull fails", err != nil, tt.class == "forbidden")
			got := n.Decision(mark, ref)
			nodetest.Want(t, "who confirms", names[got.VerifiedBy], tt.by)
			nodetest.Want(t, "class", got.Class, tt.class)
			for _, r := range []*resolvertest.Registry{first, second, n.Registry} {
				n.Must(r.Restore())
			}
		})
	}
	down(first)
	down(second)
	down(n.Registry)
	n.MustFail(ref, []string{first.Host(), second.Host(), n.Registry.Host(), "refused"}, node.Hint("policy", "Always"))
}

// TestNamespaceQuery holds that mirrors are told the registry's name, as
// containerd does it.
func TestNamespaceQuery(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	for _, r := range n.Registry.Requests() {
		if resolvertest.NoProbe(r) {
			nodetest.Want(t, r.Method+" "+r.Path+": ns", r.Query.Get("ns"), "registry.test")
		}
	}
}

// TestDialTimeout holds that a mirror that swallows packets costs its
// dial_timeout and not the whole check.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(`verify_timeout = "2m"`)) // of which half is the mirror's
	n.Push("app:1", nodetest.Image(1))
	n.WriteHosts("registry.test", n.Server(n.Registry)+n.Mirror(mirror, `dial_timeout = "300ms"`))
	n.MustPull(nodetest.Named("app:1"))
	n.Must(mirror.Swallow())
	began := time.Now()
	n.MustPull(nodetest.Named("app:1"))
	if took := time.Since(began); took < 250*time.Millisecond || took > 30*time.Second {
		t.Errorf("took %v, want the dial_timeout of 300ms and not the share of a minute", took)
	}
}

// TestOrigin holds that resolve_from = "Origin" has the tag resolved by the
// registry that the name says, with the content still from the mirror.
func TestOrigin(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`))
	n.Serve("registry.test", n.Registry, mirror)
	ref := nodetest.Named("app:1")
	old := n.PushTo(mirror, "app:1", nodetest.Image(1))
	dgst := n.Push("app:1", nodetest.Image(2))
	n.PushTo(mirror, "app:new", nodetest.Image(2))

	n.MustPull(ref)
	nodetest.Want(t, "target", n.Target(ref), dgst)
	nodetest.Eventually(t, "the origin has confirmed it", func() bool { return n.Labels(ref)["verified-by"] == n.Registry.Host() })
	nodetest.Want(t, "HEADs to the mirror", mirror.Count(resolvertest.Of(http.MethodHead, resolvertest.All)), 0)
	nodetest.Want(t, "blobs from the origin", n.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)), 0)

	n.MustPull(ref, node.Hint("resolve-from", "Mirrors"))
	nodetest.Want(t, "target by the mirror", n.Target(ref), old)

	n.MustPull(ref)
	n.Registry.Refuse()
	mark := n.Mark()
	n.MustPull(ref)
	nodetest.Want(t, "outcome with the origin down", n.Decision(mark, ref).Outcome, "UsedCached")
}
