// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// speaking makes the node's registry send a quota and a warning with each answer.
func speaking(n *nodetest.Node, remaining, warning string) {
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Ratelimit-Limit", "100;w=21600")
		w.Header().Set("Ratelimit-Remaining", remaining+";w=21600")
		w.Header().Set("Warning", warning)
		next.ServeHTTP(w, r)
	})
}

// TestDocumented compares a scrape with docs/metrics.md: each metric with its type and its
// labels, and no other.
func TestDocumented(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address))
	speaking(n, "76", `299 - "old"`)
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	n.WriteRules("a.toml", "[[rule]]\nimages = ['registry.test/tried']\nmode = 'Observe'\n")
	n.Push("tried:1", nodetest.Image(2))
	nodetest.Eventually(t, "a decision is observed", func() bool {
		n.MustPull(nodetest.Named("tried:1"))
		return nodetest.Scrape(t, address)["pullwarden_observed_decisions_total"] != nil
	})
	scraped := nodetest.Scrape(t, address)

	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `(pullwarden_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\| \\S")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		name, typ := m[1], m[2]
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		slices.Sort(labels)
		documented[name] = true
		if scraped[name] == nil {
			t.Errorf("%s is not in the scrape", name)
			continue
		}
		if got := strings.ToLower(scraped[name].GetType().String()); got != typ {
			t.Errorf("%s is a %s, documented as %s", name, got, typ)
		}
		if got := scraped.Labels(name); !slices.Equal(got, labels) {
			t.Errorf("%s has the labels %q, documented are %q", name, got, labels)
		}
	}
	for name := range scraped {
		if strings.HasPrefix(name, "pullwarden_") && !documented[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}
