// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// traces are what a decision leaves behind: records with their labels, and metrics of
// decisions.
func traces(n *nodetest.Node, metrics string) map[string]string {
	n.T.Helper()
	all := map[string]string{}
	records, err := n.Client.ImageService().List(n.T.Context())
	n.Must(err)
	for _, r := range records {
		all[r.Name] = r.Target.Digest.String() + " " + r.UpdatedAt.String()
		for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
			all[r.Name] += "\n" + key + "=" + r.Labels[key]
		}
	}
	req, err := http.NewRequestWithContext(n.T.Context(), http.MethodGet, "http://"+metrics+"/v1/metrics", http.NoBody)
	n.Must(err)
	resp, err := http.DefaultClient.Do(req)
	n.Must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	n.Must(err)
	for line := range strings.Lines(string(text)) {
		for _, prefix := range []string{"pullwarden_decisions_total", "pullwarden_coalesced_total", "pullwarden_rule_matches_total", "pullwarden_stale_images"} {
			if name, value, _ := strings.Cut(line, "} "); strings.HasPrefix(line, prefix) {
				all[name] = value
			}
		}
	}
	if all[`pullwarden_decisions_total{outcome="Pulled",policy="IfDigestChanged",reason="absent"`] == "" {
		n.T.Errorf("there are no metrics:\n%s", text)
	}
	return all
}

// TestChangesNothing explains requests that would change records, proofs and metrics.
func TestChangesNothing(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.NewWith(t, guarded(t), nodetest.Section(nodetest.IfDigestChanged), nodetest.MetricsAt(metrics))
	pushPulled(n, "app:1", 1)
	n.Push("absent:1", nodetest.Image(3))
	ref := nodetest.Named("app:1")
	n.Push("writes:1", nodetest.Image(4))
	n.WaitForWrites(nodetest.Named("writes:1"), node.Credentials(alice.user, alice.password))
	before := traces(n, metrics)
	mark := n.Mark()
	explainAll := func() {
		t.Helper()
		for _, name := range []string{ref, nodetest.Named("absent:1")} {
			for _, who := range everybody {
				for _, policy := range []string{"Never", "IfNotPresent", "IfDigestChanged", "Always"} {
					q := question{name, who, "default", []string{"policy", policy}}
					q.explain(n, false)
					q.explain(n, true)
				}
			}
		}
		if diff := cmp.Diff(before, traces(n, metrics)); diff != "" {
			t.Fatalf("explain leaves traces (-before +after)\n%s", diff)
		}
	}
	explainAll()
	n.Registry.Status(resolvertest.Manifests, 403) // would end every proof
	explainAll()
	n.Restore()
	n.Registry.Status(resolvertest.Manifests, 404) // would mark the image stale
	explainAll()
	n.Restore()
	n.Push("app:1", nodetest.Image(2)) // would be pulled
	explainAll()
	nodetest.Want(t, "decisions in the log", len(n.Decisions(mark, "")), 0)
	nodetest.Want(t, "absent image", n.Target(nodetest.Named("absent:1")), "")
	n.MustPull(ref, node.Credentials(alice.user, alice.password))
}

// TestRefusalLeavesTheProof holds that a refusal that is only explained ends no proof,
// and that of a pod does.
func TestRefusalLeavesTheProof(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, guarded(t), nodetest.Section(nodetest.IfDigestChanged))
	pushPulled(n, "app:1", 1)
	ask := question{nodetest.Named("app:1"), alice, "default", nil}
	never := question{ask.ref, alice, "default", []string{"policy", "Never"}}
	n.Registry.Status(resolvertest.Manifests, 403)
	x := ask.explain(n, true)
	nodetest.Want(t, "explained", x.Outcome+" "+x.Reason, "Failed forbidden")
	nodetest.Want(t, "by the proof after that", never.pull(n).Outcome, "Present")
	nodetest.Want(t, "a pod's refusal", ask.pull(n).Reason, "forbidden")
	nodetest.Want(t, "by the proof after that", never.pull(n).Reason, "unproved")
}

// TestTellsNoSecret looks for credentials in all that the daemon and the command line
// tell, while the registry echoes them.
func TestTellsNoSecret(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{alice.user: alice.password})), nodetest.Section(nodetest.IfDigestChanged))
	n.Registry.Allow(func(user, _ string) bool { return user == alice.user })
	pushPulled(n, "app:1", 1)
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") == "" {
			next.ServeHTTP(w, r)
			return
		}
		user, password, _ := r.BasicAuth()
		http.Error(w, user+":"+password+" "+r.Header.Get("Authorization"), http.StatusForbidden)
	})
	told := ""
	for _, who := range []caller{alice, bob} {
		q := question{nodetest.Named("app:1"), who, "default", nil}
		for _, format := range []string{"table", "json", "yaml"} {
			r := n.Command(q.args(n, "--ask", "-o", format)...)
			nodetest.Want(t, "exit code", r.Code, 0)
			told += r.Stdout + r.Stderr
		}
	}
	log, err := n.Log(0)
	n.Must(err)
	if !strings.Contains(told, "forbidden") || !strings.Contains(log, "app:1") {
		t.Error("there is nothing to look at")
	}
	for _, who := range []caller{alice, bob} {
		for _, secret := range []string{who.password, base64.StdEncoding.EncodeToString([]byte(who.user + ":" + who.password))} {
			if strings.Contains(told, secret) || strings.Contains(log, secret) {
				t.Errorf("%s's secret is told", who.user)
			}
		}
	}
}
