// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const operations = "../../docs/operations.md"

// Each alert's runbook is a section of docs/operations.md that has a text.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	sections := map[string]string{} // by anchor
	for _, m := range regexp.MustCompile(`(?ms)^### (.*?)\n(.*?)(^##|\z)`).FindAllStringSubmatch(spread(string(readFile(t, operations))), -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = strings.TrimSpace(m[2])
	}
	rules := string(readFile(t, "../../deploy/prometheus/pullwarden.rules.yaml"))
	urls := regexp.MustCompile(`runbook_url: \S*/docs/operations\.md#(\S+)`).FindAllStringSubmatch(rules, -1)
	if alerts := strings.Count(rules, "- alert: "); alerts == 0 || len(urls) != alerts {
		t.Errorf("%d alerts lead to %d sections of docs/operations.md", alerts, len(urls))
	}
	for _, url := range urls {
		if sections[url[1]] == "" {
			t.Errorf("docs/operations.md has no text at #%s", url[1])
		}
	}
}

// spread doubles the headings, so that each ends the section before it and begins its own.
func spread(page string) string {
	return regexp.MustCompile(`(?m)^(#+ .*)$`).ReplaceAllString(page, "## end\n$1")
}

// Each reason that docs/metrics.md has, and each failure class, has its line in
// docs/operations.md, and no other has.
func TestReasonsHaveALine(t *testing.T) {
	t.Parallel()
	first := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
	reasons := func(text string) (found []string) {
		for _, m := range first.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		return found
	}
	_, table, _ := strings.Cut(string(readFile(t, "../../docs/metrics.md")), "\n| reason |")
	table, _, _ = strings.Cut(table, "\n\n")
	want := reasons(table)
	for _, class := range failure.All() {
		want = append(want, string(class))
	}
	_, alerts, _ := strings.Cut(string(readFile(t, operations)), "\n## Alerts\n")
	alerts, _, _ = strings.Cut(alerts, "\n## ")
	got := reasons(alerts)
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 20 || !slices.Equal(want, got) {
		t.Errorf("docs/operations.md has lines for %q, want %q", got, want)
	}
}

// Each metric of docs/metrics.md is on the dashboard, in an alert or in docs/operations.md:
// none is there that nobody is told to look at.
func TestEachMetricIsOfUse(t *testing.T) {
	t.Parallel()
	var used strings.Builder
	for _, path := range []string{operations, "../../deploy/grafana/pullwarden.json", "../../deploy/prometheus/pullwarden.rules.yaml"} {
		used.Write(readFile(t, path))
	}
	metrics := regexp.MustCompile("(?m)^\\| `(pullwarden_[a-z_]+)` \\|").FindAllStringSubmatch(string(readFile(t, "../../docs/metrics.md")), -1)
	if len(metrics) < 15 {
		t.Fatalf("docs/metrics.md has %d metrics", len(metrics))
	}
	for _, m := range metrics {
		if !regexp.MustCompile(m[1] + `(_bucket)?\b`).MatchString(used.String()) {
			t.Errorf("nothing looks at %s", m[1])
		}
	}
}
