// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"path"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Rules by which pods of team-a may have an image by something else than a proof of their own.
const (
	byNamespace = "[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\naccess_identity = \"Namespace\"\n"
	anyOfTeamA  = "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"team-a\"]\npolicy = \"IfDigestChanged\"\naccess = \"Any\"\n" +
		"[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\n"
	byOriginOfTeamB = "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"team-b\"]\nresolve_from = \"Origin\"\n[[rule]]\nimages = [\"**\"]\n"
)

// wantRefused pulls in a namespace by what the node has, which must fail.
func wantRefused(n *nodetest.Node, ref string, who node.PullOption, namespace string) {
	n.T.Helper()
	for _, policy := range []string{"Never", "IfNotPresent"} {
		mark := n.Mark()
		if _, err := n.Pull(ref, who, node.Pod(namespace, "pod"), node.Hint("policy", policy)); err == nil {
			got := n.Decision(mark, ref)
			n.T.Errorf("%s, %s of %s: %s (%s)", ref, policy, namespace, got.Outcome, got.Reason)
		}
	}
}

// TestCheckByAnothersProof holds that a pod without a secret, which may have an image by the proof of
// its namespace or by access = "Any", makes it nobody else's by a check of the digest alone: an
// index, or the answer to HEAD, is open to all, and the manifest is alice's.
func TestCheckByAnothersProof(t *testing.T) {
	t.Parallel()
	for what, rules := range map[string]string{"the namespace's": byNamespace, "anybody's": anyOfTeamA} {
		n := open(t)
		n.WriteRules("10.toml", rules)
		const seed = 77000
		inner := platformOf(t, seed)
		n.Push("index:1", resolvertest.Index(seed, 2, 500))
		n.Push("image:1", resolvertest.Image(seed+100, 2, 500))
		undo := forAlice(n, func(r *http.Request) bool {
			if r.Method == http.MethodHead || r.URL.Path == "/v2/" {
				return false
			}
			return path.Dir(r.URL.Path) == "/v2/image/manifests" || digest.Digest(path.Base(r.URL.Path)) == inner
		})
		for _, ref := range []string{nodetest.Named("index:1"), nodetest.Named("image:1")} {
			n.MustPull(ref, alice(), node.Pod("team-a", "pod"))
			wantRefused(n, ref, node.Auth(nil), "team-b")
			n.MustPull(ref, node.Auth(nil), node.Pod("team-a", "pod"), node.Hint("policy", "Always"))
			nodetest.Want(t, what+": proof for everybody of "+ref, n.Labels(ref)["access.anonymous"], "")
			wantRefused(n, ref, node.Auth(nil), "team-b")
		}
		undo()
	}
}

// TestCheckOfAnybodysImage holds that a check of the digest alone, by a pod that needs no proof, is
// none elsewhere for a caller whom the registry gives the index, and refuses the manifest in it.
func TestCheckOfAnybodysImage(t *testing.T) {
	t.Parallel()
	n := open(t)
	n.WriteRules("10.toml", anyOfTeamA)
	const seed = 78000
	inner := platformOf(t, seed)
	n.Push("index:1", resolvertest.Index(seed, 2, 500))
	defer n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		name, _, _ := r.BasicAuth()
		switch {
		case name == "":
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
		case name != user && digest.Digest(path.Base(r.URL.Path)) == inner:
			w.WriteHeader(http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})()
	ref, bob := nodetest.Named("index:1"), node.Credentials("bob", "Pa55-of-bob-0123456789")
	n.MustPull(ref, alice(), node.Pod("team-a", "pod"))
	wantRefused(n, ref, bob, "team-b")
	n.MustPull(ref, bob, node.Pod("team-a", "pod"), node.Hint("policy", "Always"))
	wantRefused(n, ref, bob, "team-b")
}

// mirrored is a node with these rules whose registry has that mirror, and an image of the seed on both.
func mirrored(t *testing.T, rules string, mirror *resolvertest.Registry, seed int64) (*nodetest.Node, *resolvertest.Registry) {
	t.Helper()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Registry = resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	n.WriteRules("10.toml", rules)
	n.Start()
	img := resolvertest.Image(seed, 2, 500)
	n.Push("image:1", img)
	n.PushTo(mirror, "image:1", img)
	return n, mirror
}

// TestAnotherHostsProofIsNotRenewed holds that a mirror which answers everybody's HEAD, and gives the
// manifest to nobody, gives no proof by that where the registry has given one: the registry ends its
// own, and the image is nobody's.
func TestAnotherHostsProofIsNotRenewed(t *testing.T) {
	t.Parallel()
	n, mirror := mirrored(t, byOriginOfTeamB, resolvertest.New(t), 79100)
	ref := nodetest.Named("image:1")
	defer mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodHead && r.URL.Path != "/v2/" {
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})()
	always := node.Hint("policy", "Always")
	n.MustPull(ref, node.Auth(nil), node.Pod("team-b", "pod"))
	mark := n.Mark()
	n.MustPull(ref, node.Auth(nil), node.Pod("team-a", "pod"), always)
	nodetest.Want(t, "who has answered", n.Decision(mark, ref).VerifiedBy, mirror.Host())
	defer forAlice(n, func(*http.Request) bool { return true })()
	if _, err := n.Pull(ref, node.Auth(nil), node.Pod("team-b", "pod"), always); err == nil {
		t.Error("the registry refuses the image, and it is given")
	}
	wantRefused(n, ref, node.Auth(nil), "team-a")
}

// TestOwnProofBesideEverybodys holds that a caller has a proof of its own by a check while everybody's
// counts, and keeps it when that ends.
func TestOwnProofBesideEverybodys(t *testing.T) {
	t.Parallel()
	n := open(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\n")
	n.Push("image:1", resolvertest.Image(79200, 2, 500))
	ref, team := nodetest.Named("image:1"), node.Pod("team-a", "pod")
	n.MustPull(ref, node.Auth(nil), team)
	private := forAlice(n, func(*http.Request) bool { return true })
	n.MustPull(ref, alice(), team)
	if _, err := n.Pull(ref, node.Auth(nil), team); err == nil {
		t.Error("the registry refuses the image, and it is given")
	}
	private()
	defer n.Registry.Script(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})()
	n.MustPull(ref, alice(), team, node.Hint("policy", "IfDigestChanged"))
}

// TestMirrorsProofIsNoneOfTheRegistrys holds that a made-up secret gets no proof of the registry's by its
// HEAD alone, which is open to all, where a mirror has made the image everybody's: under resolve_from =
// "Origin" the image stays nobody's.
func TestMirrorsProofIsNoneOfTheRegistrys(t *testing.T) {
	t.Parallel()
	n, mirror := mirrored(t, byOriginOfTeamB, resolvertest.New(t), 79300)
	ref, eve := nodetest.Named("image:1"), node.Credentials("eve", "made-up-0123456789")
	defer forAlice(n, func(r *http.Request) bool { return r.Method != http.MethodHead && r.URL.Path != "/v2/" })()
	n.MustPull(ref, node.Auth(nil), node.Pod("team-a", "pod"))
	defer mirror.Status(resolvertest.All, http.StatusServiceUnavailable)()
	wantRefused(n, ref, eve, "team-b")
	mark := n.Mark()
	n.MustPull(ref, eve, node.Pod("team-a", "pod"), node.Hint("policy", "Always"))
	nodetest.Want(t, "who has answered", n.Decision(mark, ref).VerifiedBy, n.Registry.Host())
	wantRefused(n, ref, eve, "team-b")
}
