// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Secrets of pods.
var (
	alice = node.Credentials("alice", "alice's password")
	wrong = node.Credentials("alice", "not her password")
)

// guarded is a node whose registry lets alice have everything, and everybody what is
// public.
func guarded(t testing.TB, rules string, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "alice's password"})), opts...)
	n.Registry.Allow(func(user, repository string) bool { return user == "alice" || strings.HasPrefix(repository, "public/") })
	n.WriteRules("10.toml", rules)
	return n
}

// withAlice is a node that runs pods, with a registry that lets in alice alone.
func withAlice(t testing.TB, rules string, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "alice's password"}))
	r.Allow(func(user, _ string) bool { return user == "alice" })
	return withPods(t, rules, opts...).With(r)
}

const strict = "[[rule]]\nimages = ['registry.test/**']\naccess = 'Strict'\ngovern = 'Starts'\n"

// TestStrict holds that under access = "Strict" every start is a decision, under each
// policy: a pod without a proof does not start.
func TestStrict(t *testing.T) {
	t.Parallel()
	n := guarded(t, "")
	digest := n.Push("private/app:1", nodetest.Image(1))
	for _, tc := range []struct{ policy, tag, digest string }{
		{"Always", "Unchanged", "Present"}, {"IfDigestChanged", "Unchanged", "Present"}, {"IfNotPresent", "Present", "Present"}, {"Never", "Present", "Present"},
	} {
		n.WriteRules("10.toml", strict+"policy = 'IfNotPresent'\n")
		owner := newPod(n, "default", "owner-"+tc.policy)
		owner.secrets = []node.PullOption{wrong, alice}
		for ref, outcome := range map[string]string{nodetest.Named("private/app:1"): tc.tag, nodetest.Named("private/app@" + digest.String()): tc.digest} {
			if _, err := owner.pulls(ref); err != nil {
				t.Fatal(err)
			}
			n.WriteRules("10.toml", strict+"policy = '"+tc.policy+"'\n")
			mark := n.Mark()
			if _, err := owner.starts("IfNotPresent", ref); err != nil {
				t.Fatal(err)
			}
			all := n.Decisions(mark, ref)
			nodetest.Want(t, tc.policy+" decides on "+ref, all[len(all)-1].Outcome, outcome)
			for _, secrets := range [][]node.PullOption{nil, {wrong}} {
				p := newPod(n, "default", "nobody")
				p.secrets = secrets
				for range 2 {
					if id, err := p.starts("IfNotPresent", ref); err == nil {
						t.Errorf("under %s a pod without a proof gets %s for %s", tc.policy, id, ref)
					}
					p.wants(ref, false, false)
				}
			}
		}
	}
}

// TestStrictNever holds that imagePullPolicy: Never is no way around a proof. It is
// warned of, once.
func TestStrictNever(t *testing.T) {
	t.Parallel()
	n := guarded(t, strict+"policy = 'IfNotPresent'\n")
	digest := n.Push("private/app:1", nodetest.Image(1))
	n.Push("public/app:1", nodetest.Image(2))
	ref, byDigest, public := nodetest.Named("private/app:1"), nodetest.Named("private/app@"+digest.String()), nodetest.Named("public/app:1")
	n.MustPull(ref, alice)
	n.MustPull(public)
	mark := n.Mark()
	thief := newPod(n, "default", "thief")
	thief.wants(ref, false, false, false, false)
	thief.wants(byDigest, false, false, false)
	nodetest.Want(t, "warnings", len(n.LogLines(mark, `"level":"warning"`, "imagePullPolicy: Never", ref, "access=Strict(rule 10.toml#1)")), 1)
	thief.wants(public, true, true)
	for _, policy := range []string{"Always", "IfDigestChanged"} {
		n.WriteRules("10.toml", strict+"policy = '"+policy+"'\n")
		p := newPod(n, "default", policy)
		p.wants(public, false, true, true) // a proof that holds for everybody
		p.wants(ref, false, false, false)
		n.Registry.Refuse()
		p.wants(public, true)
		p.wants(ref, false)
		n.Restore()
	}
}

// TestStrictNeverOfANamespace holds that a pod that does not pull starts by the proof of
// its namespace, and no other does.
func TestStrictNeverOfANamespace(t *testing.T) {
	t.Parallel()
	n := withAlice(t, strict+"policy = 'IfDigestChanged'\naccess_identity = 'Namespace'\n")
	ref := nodetest.Named("private/app:1")
	n.Push("private/app:1", nodetest.Image(1))
	n.MustPull(ref, alice, node.Pod("team-a", "owner"))
	for _, namespace := range []string{"team-a", "team-b"} {
		p := newPod(n, namespace, "never")
		p.run()
		p.wants(ref, false, namespace == "team-a", namespace == "team-a")
		p.seenAgain() // it may be a pod of either namespace, once both are there
		p.wants(ref, false, namespace == "team-a")
	}
}

// TestUnprovedRegistryDown holds that a fallback is for those who have a proof: a kubelet
// never hears of a success by other credentials.
func TestUnprovedRegistryDown(t *testing.T) {
	t.Parallel()
	n := guarded(t, everywhere)
	ref := nodetest.Named("private/app:1")
	n.Push("private/app:1", nodetest.Image(1))
	owner := newPod(n, "default", "owner")
	owner.secrets = []node.PullOption{alice}
	owner.mustStart(ref, "Pulled")
	n.Registry.Refuse()
	owner.mustStart(ref, "UsedCached")
	for _, secrets := range [][]node.PullOption{nil, {wrong}} {
		p := newPod(n, "default", "other")
		p.secrets = secrets
		if id, err := p.starts("IfNotPresent", ref); err == nil {
			t.Errorf("it gets %s", id)
		}
	}
}
