// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestHealthy shows a node that is well, with an image of a registry, one of a mirror
// and one that was imported.
func TestHealthy(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged),
		nodetest.CRIImages("[plugins.'io.containerd.cri.v1.images'.pinned_images]", "base = 'registry.test/app:1'"))
	mirror := resolvertest.New(t)
	n.Serve("mirrored.test", n.Registry, mirror)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['mirrored.test/**']\npolicy = 'IfDigestChanged'\n")
	app := n.Push("app:1", nodetest.Image(1))
	n.PushTo(mirror, "team/service:stable", nodetest.Image(2))
	began := time.Now().Truncate(time.Second)
	n.MustPull(nodetest.Named("app:1"))
	n.MustPull("mirrored.test/team/service:stable")
	n.Import("imported.test/base:1", nodetest.Image(3))

	r := statusOf(n)
	want := "imported.test/base:1\nmirrored.test/team/service:stable\nregistry.test/app:1\n"
	if diff := cmp.Diff(want, r.references()); diff != "" || !r.Healthy || ids(r.Notes) != "open_images" || r.Rules.Rules != 1 || r.Rules.Files != 1 {
		t.Fatalf("%s%+v", diff, r)
	}
	got := r.Images[2]
	if got.VerifiedAt.Before(began) || time.Since(got.VerifiedAt) > time.Minute {
		t.Errorf("checked at %v", got.VerifiedAt)
	}
	got.VerifiedAt = time.Time{}
	if diff := cmp.Diff(image{
		Reference: nodetest.Named("app:1"), Digest: app.String(), PullSource: n.Registry.Host() + "/app:1",
		ContentSources: []string{}, VerifiedBy: n.Registry.Host(), Proofs: 1, Pinned: true,
	}, got); diff != "" {
		t.Error(diff)
	}

	wantScreen(n, 0, "healthy: 1 rule of 1 file, 0 hosts in trouble, 0 stale images\n", "not enforced: no registry was ever asked about 1 image",
		"IMAGE", "registry.test/app:1", app.Encoded()[:8]+" ", "  yes\n")
	wantSameYAML(t, n.Command("status", "-o", "json").Stdout, n.Command("status", "-o", "yaml").Stdout)
	if wide := n.Command("status", "-o", "wide").Stdout; !strings.Contains(wide, app.String()) || !strings.Contains(wide, n.Registry.Host()+"/app:1") {
		t.Errorf("wide shortens\n%s", wide)
	}
	for args, want := range map[string]string{
		"":                               want,
		"--stale":                        "",
		"--source " + mirror.Host():      "mirrored.test/team/service:stable\n",
		"--older-than 1h":                "imported.test/base:1\n",
		"--older-than 1h --source x.com": "",
	} {
		if got := n.Command(strings.Fields("status -q " + args)...); got.Stdout != want || got.Code != 0 {
			t.Errorf("-q %s: exit %d, %q, want %q", args, got.Code, got.Stdout, want)
		}
	}
}

// TestDegraded takes a registry away, and gives it back.
func TestDegraded(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	for seed, tag := range []string{"app-a:1", "app-b:1"} {
		n.Push(tag, nodetest.Image(int64(seed)))
		n.MustPull(nodetest.Named(tag))
	}
	ref := nodetest.Named("app-b:1")
	n.Registry.Status(resolvertest.All, 503)
	n.MustPull(ref)
	var r report
	nodetest.Eventually(t, "the host is in trouble, and the image stale", func() bool {
		n.MustPull(ref)
		r = statusOf(n)
		return ids(r.Problems) == "host_in_trouble stale_images"
	})
	nodetest.Want(t, "host in trouble", r.Hosts[0].Host, "http://"+n.Registry.Host())
	nodetest.Want(t, "its class", r.Hosts[0].Class, "unavailable")
	nodetest.Want(t, "images", r.references(), ref+"\n"+nodetest.Named("app-a:1")+"\n")
	nodetest.Want(t, "reason", r.Images[0].StaleReason, "unavailable")
	wantScreen(n, 1, "degraded: 0 rules of 0 files, 1 host in trouble, 1 stale image\n", n.Registry.Host()+" is in trouble since",
		"\n  stale for ", ": unavailable\n")
	got := n.Command("status", "--stale", "-q")
	nodetest.Want(t, "stale images", got.Stdout, ref+"\n")
	got = n.Command("status", "-q", "--source", "other.test")
	nodetest.Want(t, "exit code with a filter", got.Code, 1)

	n.Restore()
	nodetest.Eventually(t, "all is well", func() bool {
		n.MustPull(ref)
		return statusOf(n).Healthy
	})
}

// TestBrokenRules shows a mistake in a rule file as long as it is there.
func TestBrokenRules(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\n")
	nodetest.Eventually(t, "the rule is in force", func() bool { return statusOf(n).Rules.Rules == 1 })
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\npolcy = 'Always'\n")
	nodetest.Eventually(t, "the mistake is told", func() bool { return ids(statusOf(n).Problems) == "rules_not_taken" })
	r := statusOf(n)
	for _, word := range []string{"a.toml:3", "polcy", "the last good 1 rule is used instead"} {
		if !strings.Contains(r.Problems[0].Text, word) {
			t.Errorf("%q is not in %q", word, r.Problems[0].Text)
		}
	}
	nodetest.Want(t, "rules in force", r.Rules.Rules, 1)
	wantScreen(n, 1, "degraded: 1 rule of 1 file", "polcy", "\nno images\n")
	n.WriteRules("a.toml", "")
	nodetest.Eventually(t, "all is well", func() bool { return statusOf(n).Healthy })
}

// TestNotEnabled tells a node where pullwarden does not work, and one that is gone.
func TestNotEnabled(t *testing.T) {
	t.Parallel()
	wantNone := func(n *nodetest.Node, words ...string) {
		t.Helper()
		r := n.Command("status")
		nodetest.Want(t, "exit code", r.Code, 2)
		for _, word := range words {
			if !strings.Contains(r.Stderr, word) || r.Stdout != "" {
				t.Errorf("%q is not in %q, or there is output: %q", word, r.Stderr, r.Stdout)
			}
		}
	}
	n := nodetest.Start(t, nodetest.OnlySection())
	wantNone(n, "is not enabled", "enabled = true")
	n.Restart(nodetest.OnlySection("enabled = false"))
	wantNone(n, "is not enabled", "enabled = true")
	n.Stop()
	wantNone(n, "does not answer at "+n.Address())

	broken := nodetest.Prepare(t, nodetest.Section(`default_policy = "Sometimes"`))
	broken.Run()
	wantNone(broken, "has not started", "default_policy", "Sometimes")
}

// TestObserved tells which rules are not enforced, on a node that is healthy.
func TestObserved(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['a.test/**']\nmode = 'Observe'\n[[rule]]\nimages = ['b.test/**']\n")
	nodetest.Eventually(t, "a rule is observed", func() bool { return ids(statusOf(n).Notes) == "observed" })
	wantScreen(n, 0, "healthy: 2 rules of 1 file", `  - not enforced: mode = "Observe": under 1 of 2 rules, containerd pulls by`)
	n.Restart(nodetest.Section(`mode = "Observe"`))
	nodetest.Want(t, "notes", ids(statusOf(n).Notes), "observed")
	wantScreen(n, 0, "containerd pulls all images by itself")
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = 'Enforce'\n")
	nodetest.Eventually(t, "no rule is observed", func() bool { return statusOf(n).Rules.Rules == 1 })
	wantScreen(n, 0, "for images that no rule matches")
}

// TestTimesThatJSONCannotHave has a record with a time of the year 10000, in UTC. Nothing is known
// of the check then, and the verbs go on in every format.
func TestTimesThatJSONCannotHave(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	n.SetLabels(ref, map[string]string{"verified-at": "9999-12-31T23:59:59-23:59"})
	for _, args := range []string{"status", "status -o json", "status -o yaml", "explain " + ref + " -o json"} {
		if got := n.Command(strings.Fields(args)...); got.Code != 0 || got.Stdout == "" {
			t.Errorf("%s: exit %d, %q: %s", args, got.Code, got.Stdout, got.Stderr)
		}
	}
	nodetest.Want(t, "the check is not believed", statusOf(n).Images[0].VerifiedAt, time.Time{})
}

// TestOpenImages tells of an image that was imported where access = "Verified" opens it:
// not under Strict, unless a rule says otherwise.
func TestOpenImages(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`access = "Strict"`))
	n.Import("imported.test/base:1", nodetest.Image(1))
	nodetest.Want(t, "notes under Strict", ids(statusOf(n).Notes), "")
	n.WriteRules("a.toml", "[[rule]]\nimages = ['imported.test/**']\naccess = 'Verified'\n")
	nodetest.Eventually(t, "the rule is used", func() bool { return ids(statusOf(n).Notes) == "open_images" })
	wantScreen(n, 0, "not enforced: no registry was ever asked about 1 image: where access =")
}
