// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wantDocumented wants the metrics in an expression to be in docs/metrics.md.
func wantDocumented(t *testing.T, expr string) {
	t.Helper()
	page := string(readFile(t, "../../docs/metrics.md"))
	names := regexp.MustCompile(`pullwarden_[a-z_]+`).FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s is not about pullwarden", expr)
	}
	for _, name := range names {
		if !strings.Contains(page, "| `"+strings.TrimSuffix(name, "_bucket")+"` |") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
}

// Each alert says how urgent it is, what is the case, and where to read on.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(readFile(t, "../../deploy/prometheus/pullwarden.rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	runbook := regexp.MustCompile(`^https://github\.com/pullwarden/pullwarden/blob/main/docs/(operations|troubleshooting)\.md#[a-z-]+$`)
	alerts := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.Alert, "Pullwarden") || alerts[r.Alert] {
				t.Errorf("an alert has the name %q", r.Alert)
			}
			alerts[r.Alert] = true
			wantDocumented(t, r.Expr)
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !runbook.MatchString(r.Annotations["runbook_url"]) {
				t.Errorf("%s is annotated with %q", r.Alert, r.Annotations)
			}
		}
	}
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
}

// Each panel says what it shows, and stands on a place of its own.
func TestDashboard(t *testing.T) {
	t.Parallel()
	type place struct{ X, Y, W, H int }
	var dashboard struct {
		Panels []struct {
			ID                       int
			Type, Title, Description string
			GridPos                  place
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(readFile(t, "../../deploy/grafana/pullwarden.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && p.Description == "" {
			t.Errorf("panel %d has the title %q and the description %q", p.ID, p.Title, p.Description)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" || at[0] >= 24 {
					t.Fatalf("%q stands on %q at %v", p.Title, other, at)
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			wantDocumented(t, target.Expr)
		}
	}
	if len(ids) == 0 {
		t.Error("there are no panels")
	}
}
