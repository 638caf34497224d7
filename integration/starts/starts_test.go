// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestFollowsATag holds that pods with imagePullPolicy: IfNotPresent and no hint follow a
// tag, at each start of a container, and start from the cached image while the registry
// is down.
func TestFollowsATag(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	first := newPod(n, "default", "first")
	old := first.mustStart(ref, "Pulled")
	second := newPod(n, "default", "second")
	mark := n.Mark()
	nodetest.Want(t, "the image of the second pod", second.mustStart(ref, "Unchanged"), old)
	if d := n.Decision(mark, ref); !strings.Contains(d.DecidedBy, "govern=Starts(rule 10.toml#1)") {
		t.Errorf("it was decided by %s", d.DecidedBy)
	}
	n.Push("app:1", nodetest.Image(2))
	fresh := second.mustStart(ref, "Pulled") // its container has restarted
	if fresh == old {
		t.Error("a restarted container has the old image")
	}
	n.Registry.Refuse()
	nodetest.Want(t, "the image with the registry down", first.mustStart(ref, "UsedCached"), fresh)
	nodetest.Want(t, "the image of a new pod with the registry down", newPod(n, "default", "third").mustStart(ref, "UsedCached"), fresh)
	n.Restore()
	mark = n.Mark()
	if _, err := newPod(n, "default", "always").starts("Always", ref); err != nil {
		t.Fatal(err)
	}
	if d := n.Decision(mark, ref); strings.Contains(d.DecidedBy, "govern") {
		t.Errorf("a pull that nobody asked for was decided by %s", d.DecidedBy)
	}
}

// TestFreshIsThere holds that an image whose check is young enough is simply there, and
// costs nothing.
func TestFreshIsThere(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere+"max_age = '1h'\n")
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	n.Registry.Forget()
	p := newPod(n, "default", "second")
	p.mustStart(ref, "")
	p.wants(ref, true, true)
	nodetest.Want(t, "requests", n.Requests(), "")
	n.SetLabels(ref, map[string]string{"verified-at": "2020-01-01T00:00:00Z"})
	p.mustStart(ref, "Unchanged")
}

// TestLeftAlone holds which questions are answered as ever.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	digest := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	id := newPod(n, "default", "first").mustStart(ref, "Pulled")
	mark := n.Mark()
	wants := func(what, ref string, annotations map[string]string, verbose bool) {
		t.Helper()
		response, err := n.Images.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref, Annotations: annotations}, Verbose: verbose})
		if err != nil || response.GetImage().GetId() != id {
			t.Errorf("%s gets %v, %v", what, response.GetImage(), err)
		}
		if got := response.GetInfo()["pullwarden"] != ""; got != verbose {
			t.Errorf("%s gets information: %v", what, got)
		}
	}
	for range 2 {
		wants("crictl", ref, nil, true)
		wants("a client without the kubelet's annotation", ref, map[string]string{"a": "b"}, false)
		p := newPod(n, "default", "volume")
		wants("the kubelet, of a volume", id, p.annotations, false)
		p.wants(nodetest.Named("app@"+digest.String()), true, true)
		for _, hint := range []string{"IfNotPresent", "Never"} {
			newPod(n, "default", "hinted", node.LabelPrefix+"policy", hint).wants(ref, true, true)
		}
	}
	for _, line := range []string{"policy = 'IfNotPresent'", "policy = 'Never'", "policy = 'Always'\ngovern = 'Pulls'", "policy = 'Always'\nmode = 'Observe'"} {
		if !strings.Contains(line, "govern") {
			line += "\ngovern = 'Starts'"
		}
		n.WriteRules("10.toml", "[[rule]]\nimages = ['**']\n"+line+"\n")
		newPod(n, "default", "other").wants(ref, true, true)
	}
	n.WriteRules("10.toml", "[[rule]]\nimages = ['other.test/**']\npolicy = 'Always'\ngovern = 'Starts'\n")
	newPod(n, "default", "other").wants(ref, true, true)
	nodetest.Want(t, "answers of ours", len(n.LogLines(mark, "a pod asks whether")), 0)
	nodetest.Want(t, "the decisions", len(n.Decisions(mark, ref)), 0)
}

// TestSection holds that the section has the directive for images without a rule.
func TestSection(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `govern = "Starts"`))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	newPod(n, "default", "second").mustStart(ref, "Unchanged")
}

// TestBadHint holds that a pod hears of a bad hint where it would not have pulled.
func TestBadHint(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	p := newPod(n, "default", "slip", node.LabelPrefix+"max-age", "soon")
	_, err := p.starts("IfNotPresent", ref)
	if err == nil || !strings.Contains(err.Error(), "max-age") {
		t.Errorf("the pod gets %v", err)
	}
	p.wants(ref, false, false)
}

// TestCounted holds that answers are counted and logged.
func TestCounted(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := newNode(t, everywhere, nodetest.MetricsAt(address))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	mark := n.Mark()
	newPod(n, "default", "second").mustStart(ref, "Unchanged")
	newPod(n, "default", "never").wants(ref, false, true, true)
	scraped := nodetest.Scrape(t, address)
	for answer, want := range map[string]float64{"pull": 2, "reuse": 0, "pulled": 2, "no_pull": 2, "unproved": 0} {
		got, ok := scraped.Value("pullwarden_starts_total", map[string]string{"answer": answer})
		if !ok || got != want {
			t.Errorf("%v answers %q are counted, want %v", got, answer, want)
		}
	}
	nodetest.Want(t, "answers in the log", len(n.LogLines(mark, "a pod asks whether an image is there", ref)), 5)
}
