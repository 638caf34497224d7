// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/plugin/audit"
	"github.com/pullwarden/pullwarden/plugin/status"
)

// TestTold shows what is being pulled in status, in the metrics and in the audit log.
func TestTold(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	s := newScene(t, nodetest.OpenToAll(t), atOnce, nodetest.MetricsAt(address), nodetest.AuditLog("audit.log"))
	value := func(name string, labels map[string]string) float64 {
		v, _ := nodetest.Scrape(t, address).Value(name, labels)
		return v
	}
	succeeded := map[string]string{"result": "succeeded"}
	nodetest.Want(t, "under way before", value("pullwarden_background_pulls_under_way", nil), 0)
	mark := s.Mark()
	s.wantCached()
	nodetest.Want(t, "under way", value("pullwarden_background_pulls_under_way", nil), 1)
	nodetest.Want(t, "ended", value("pullwarden_background_pulls_total", succeeded), 0)
	nodetest.Want(t, "decisions", value("pullwarden_decisions_total", map[string]string{"policy": "IfDigestChanged", "outcome": "UsedCached", "reason": "pull_deadline"}), 1)
	var report status.Report
	nodetest.Eventually(t, "the pull shows", func() bool {
		report = status.Report{}
		s.Must(json.Unmarshal([]byte(s.Command("status", "-o", "json").Stdout), &report))
		return len(report.Pulls) == 1
	})
	nodetest.Want(t, "in the background", report.Pulls[0].Background && report.BackgroundPulls == 1, true)
	nodetest.Want(t, "reference", report.Pulls[0].Reference, s.ref)
	if text := s.Command("status").Stdout; !strings.Contains(text, "background pulls: 1") || !strings.Contains(text, "pull_deadline") {
		t.Errorf("status shows\n%s", text)
	}
	s.release()
	s.wantNew(mark)
	nodetest.Eventually(t, "it is counted", func() bool {
		return value("pullwarden_background_pulls_total", succeeded) == 1 && value("pullwarden_background_pulls_under_way", nil) == 0
	})
	// The digest that the tag has left is no stale image.
	nodetest.Want(t, "stale images", value("pullwarden_stale_images", nil), 0)
	s.wantAudited()
}

// wantAudited holds the audit log against the scene of TestTold.
func (s *scene) wantAudited() {
	s.T.Helper()
	var lines []audit.Line
	nodetest.Eventually(s.T, "the audit log has all", func() bool {
		data, err := os.ReadFile(s.Path("audit.log"))
		s.Must(err)
		lines = nil
		for text := range strings.Lines(string(data)) {
			var l audit.Line
			s.Must(json.Unmarshal([]byte(text), &l))
			lines = append(lines, l)
		}
		return len(lines) == 4
	})
	nodetest.Want(s.T, "the pod's line", lines[1].Outcome+" "+lines[1].Digest+" "+lines[1].Awaited, "UsedCached "+s.old.String()+" "+s.new.String())
	nodetest.Want(s.T, "the pull's line", lines[2].Outcome+" "+lines[2].Before+" "+lines[2].Digest, "Pulled "+s.old.String()+" "+s.new.String())
	nodetest.Want(s.T, "which is the pull's", !lines[1].Background && lines[2].Background && !lines[3].Background, true)
}

// TestExplain foresees what the deadline leads to.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "10s"`))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "with another the image is pulled, and after 10s the cached image is used;"},
		{[]string{"--hint", "pull-deadline=0s"}, "with another the cached image is used, and the other is pulled in the background;"},
		{[]string{"--ask"}, "; where that takes longer than pull_deadline=10s(section), the cached image is used."},
		{[]string{"--ask", "--hint", "pull-deadline=0s"}, "which is pulled in the background under pull_deadline=0s(hint)."},
		{[]string{"--hint", "policy=Always"}, "with another the image is pulled; after any failure the pod fails."},
	} {
		var x struct{ Sentence string }
		s.Must(json.Unmarshal([]byte(s.Command(append([]string{"explain", s.ref, "-o", "json"}, tt.args...)...).Stdout), &x))
		if !strings.Contains(x.Sentence, tt.want) {
			t.Errorf("%q: %s", tt.args, x.Sentence)
		}
	}
	nodetest.Want(t, "target", s.Target(s.ref), s.old)
}
