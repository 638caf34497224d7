// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var (
	pending = regexp.MustCompile(`(?m)^( +for:) .*$`)
	ranges  = regexp.MustCompile(`\[(\d+[mh])\]`)
)

// hasty returns the rules as they are, but for their times: an alert fires once its
// expression has held for a second, and looks back for 15.
func hasty(rules string) string {
	return ranges.ReplaceAllString(pending.ReplaceAllString(rules, "$1 1s"), "[15s]")
}

// TestAlerts breaks everything that an alert is about while Prometheus scrapes the daemon,
// and mends it: each alert fires and ends, and meanwhile each query of the dashboard has
// an answer.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules := hasty(read(t, rulesFile))
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.AuditLog(auditLog), nodetest.MetricsAt(address))
	p := startPrometheus(t, address, rules)
	s := newScene(n)
	s.pull()
	wanted, queries := alertsOf(t, rules), queriesOf(t)
	if len(wanted) == 0 || len(queries) == 0 {
		t.Fatalf("there are %d alerts and %d queries to hold", len(wanted), len(queries))
	}
	t.Logf("%d alerts, %d queries", len(wanted), len(queries))

	s.breakAll()
	until(t, func() string {
		s.pull()
		return missing(wanted, p.firing())
	})
	for _, a := range p.alerts() {
		for name, text := range a.Annotations {
			if text == "" || strings.Contains(text, "<error") || strings.Contains(text, "<no value>") {
				t.Errorf("%s of %s is %q", name, a.Labels["alertname"], text)
			}
		}
	}
	until(t, func() string {
		s.pull()
		return strings.Join(slices.DeleteFunc(slices.Clone(queries), p.answers), "\n")
	})

	s.mendAll()
	until(t, func() string {
		s.pull()
		return strings.Join(slices.Sorted(maps.Keys(p.firing())), ", ")
	})
}

// scene is a node whose registries can be broken: one fails, the other warns.
type scene struct {
	*nodetest.Node
	warning *resolvertest.Registry
	broken  atomic.Bool
}

func newScene(n *nodetest.Node) *scene {
	s := &scene{Node: n, warning: resolvertest.New(n.T)}
	n.Serve(warns, s.warning)
	n.Push("app:1", nodetest.Image(1))
	n.PushTo(s.warning, "app:1", nodetest.Image(2))
	s.warning.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		remaining := "90"
		if s.broken.Load() {
			remaining = "9"
			w.Header().Set("Warning", `299 - "this registry moves"`)
		}
		w.Header().Set("RateLimit-Limit", "100;w=21600")
		w.Header().Set("RateLimit-Remaining", remaining)
		next.ServeHTTP(w, r)
	})
	return s
}

const (
	imported = "registry.test/imported:1"
	warns    = "warning.test" // the registry that warns
	auditLog = "audit.log"
	mistake  = "[[rule]]\nimages = \"**\"\n"
	broken   = "[host.\n" // at the end of a hosts.toml
)

// breakAll gives every alert its reason.
func (s *scene) breakAll() {
	s.T.Helper()
	s.broken.Store(true)
	s.Registry.Status(resolvertest.All, http.StatusServiceUnavailable)
	s.WriteRules("10.toml", mistake)
	s.WriteHosts(warns, s.Server(s.warning)+broken)
	s.Must(os.Rename(s.Path(auditLog), s.Path(auditLog+".1")))
	s.Must(os.Mkdir(s.Path(auditLog), 0o700))
	image, err := s.Client.ImageService().Get(s.T.Context(), nodetest.Named("app:1"))
	s.Must(err)
	image.Name, image.Labels = imported, nil
	_, err = s.Client.ImageService().Create(s.T.Context(), image)
	s.Must(err)
}

func (s *scene) mendAll() {
	s.T.Helper()
	s.broken.Store(false)
	s.Restore()
	s.WriteRules("10.toml", "")
	s.Serve(warns, s.warning)
	s.Must(os.Remove(s.Path(auditLog)))
	s.Must(s.Client.ImageService().Delete(s.T.Context(), imported))
}

// pull asks for an image of each registry, and, as a pod would that takes no cached image,
// once more.
func (s *scene) pull() {
	s.T.Helper()
	s.MustPull(warns + "/app:1")
	s.MustPull(nodetest.Named("app:1"))
	if _, err := s.Pull(nodetest.Named("app:1"), node.Hint("policy", "Always")); err == nil && s.broken.Load() {
		s.T.Error("a broken registry has answered")
	}
}

// alertsOf returns the names of the alerts that this daemon can give a reason for.
func alertsOf(t *testing.T, rules string) (names []string) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal([]byte(rules), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
		}
	}
	return names
}

// firing returns the names of the alerts that fire.
func (p *prometheus) firing() map[string]bool {
	p.t.Helper()
	names := map[string]bool{}
	for _, a := range p.alerts() {
		if a.State == "firing" {
			names[a.Labels["alertname"]] = true
		}
	}
	return names
}

func missing(wanted []string, firing map[string]bool) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return firing[name] }), ", ")
}

// answers reports whether an expression has a series with a number. The quantile of a host
// that answers no check is none.
func (p *prometheus) answers(expr string) bool {
	p.t.Helper()
	return slices.ContainsFunc(p.query(expr), func(s sample) bool { return s.Value[1] != "NaN" })
}

// queriesOf returns the queries of the dashboard's panels as Grafana would send them, but
// without the zero that some show where there is nothing: while things fail, there is.
func queriesOf(t *testing.T) (queries []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Error("a panel has no query")
		}
		for _, target := range panel.Targets {
			queries = append(queries, strings.NewReplacer("$instance", ".*", "$__rate_interval", "15s", " or vector(0)", "").Replace(target.Expr))
		}
	}
	return queries
}
