// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pullwarden/pullwarden/"

// allowed lists for each package the packages of this module that it may
// import. Every package may import those of internal.
var allowed = map[string][]string{
	"cmd/pullwarden":                   {"cmd/pullwarden/internal/cli"},
	"cmd/pullwarden/internal/cli":      {"cmd/pullwarden/internal/install", "plugin/api", "plugin/check", "plugin/config", "plugin/rulesync", "plugin/ruletest", "plugin/status"},
	"cmd/pullwarden/internal/install":  {"plugin/check"},
	"cmd/pullwarden/internal/manpages": {"cmd/pullwarden/internal/cli"},

	"cmd/pullwarden-rollout":                  {"cmd/pullwarden-rollout/internal/cli"},
	"cmd/pullwarden-rollout/internal/cli":     {"cmd/pullwarden-rollout/internal/kube", "cmd/pullwarden-rollout/internal/rollout"},
	"cmd/pullwarden-rollout/internal/kube":    {"cmd/pullwarden-rollout/internal/rollout"},
	"cmd/pullwarden-rollout/internal/rollout": nil,

	"cmd/containerd":                {"plugin"},
	"plugin":                        {"plugin/api", "plugin/audit", "plugin/config", "plugin/cri", "plugin/engine", "plugin/explain", "plugin/metrics", "plugin/pin", "plugin/policy", "plugin/pull", "plugin/rules", "plugin/transfer", "resolver", "resolver/hosts", "store", "store/content"},
	"plugin/api":                    nil,
	"plugin/audit":                  {"plugin/engine"},
	"plugin/check":                  {"plugin/config", "plugin/policy", "plugin/pull", "plugin/rules", "plugin/ruletest", "resolver/failure", "resolver/hosts", "resolver/redact"},
	"plugin/config":                 {"plugin/policy"},
	"plugin/cri":                    {"plugin/engine", "plugin/policy", "plugin/transfer", "resolver", "resolver/failure", "resolver/redact", "store"},
	"plugin/engine":                 {"plugin/isolation", "plugin/policy", "plugin/transfer", "resolver", "resolver/failure", "resolver/provenance", "store", "store/content"},
	"plugin/explain":                {"plugin/api", "plugin/engine", "plugin/policy", "resolver", "resolver/failure"},
	"plugin/internal/configexample": {"plugin"},
	"plugin/isolation":              nil,
	"plugin/metrics":                {"plugin/engine", "plugin/pin", "plugin/policy", "plugin/status", "resolver", "resolver/health"},
	"plugin/pin":                    {"store"},
	"plugin/policy":                 {"resolver/failure"},
	"plugin/pull":                   {"resolver", "plugin/isolation", "plugin/transfer"},
	"plugin/rules":                  {"plugin/policy"},
	"plugin/ruletest":               {"plugin/config", "plugin/engine", "plugin/policy", "plugin/rules", "resolver/failure"},
	"plugin/rulesync":               {"plugin/check", "plugin/policy", "plugin/rules", "plugin/ruletest"},
	"plugin/status":                 {"plugin/api", "store"},
	"plugin/transfer":               {"plugin/isolation", "resolver/hosts", "resolver/provenance", "store"},
	"resolver":                      {"resolver/auth", "resolver/failure", "resolver/fault", "resolver/health", "resolver/hosts", "resolver/provenance", "resolver/purpose", "resolver/redact", "resolver/transport"},
	"resolver/auth":                 {"resolver/failure", "resolver/fault", "resolver/purpose", "resolver/redact", "resolver/tries"},
	"resolver/failure":              nil,
	"resolver/fault":                {"resolver/failure", "resolver/health"},
	"resolver/health":               {"resolver/failure"},
	"resolver/hosts":                {"resolver/failure", "resolver/fault", "resolver/health", "resolver/pool", "resolver/redact"},
	"resolver/pool":                 {"resolver/fault"},
	"resolver/provenance":           nil,
	"resolver/purpose":              {"resolver/failure", "resolver/health"},
	"resolver/redact":               nil,
	"resolver/transport":            {"resolver/failure", "resolver/fault", "resolver/health", "resolver/hosts", "resolver/pool", "resolver/purpose", "resolver/redact", "resolver/tries"},
	"resolver/tries":                {"resolver/failure", "resolver/fault", "resolver/purpose"},
	"store":                         {"resolver/failure"},
	"store/content":                 nil,
}

// TestDirections holds the arrows of doc.go: which packages a package may
// import. Tests may import others.
func TestDirections(t *testing.T) {
	for dir, imports := range importsByPackage(t) {
		for _, path := range imports {
			ours, ok := strings.CutPrefix(path, module)
			switch {
			case !ok:
				if dir == "plugin/policy" && strings.HasPrefix(path, "github.com/containerd/") || dir == "plugin/engine" && strings.HasPrefix(path, "k8s.io/") {
					t.Errorf("%s imports %s", dir, path)
				}
			case strings.HasPrefix(ours, "internal/"):
			case strings.HasPrefix(dir, "internal/") || !slices.Contains(allowed[dir], ours):
				t.Errorf("%s imports %s", dir, ours)
			}
		}
	}
}

// Resolver and store know nothing of plugin, and the list is no longer than the
// imports are.
func TestAllowedDirections(t *testing.T) {
	imports := importsByPackage(t)
	for dir, list := range allowed {
		for _, path := range list {
			if !strings.HasPrefix(dir, "plugin") && !strings.HasPrefix(dir, "cmd") && strings.HasPrefix(path, "plugin") {
				t.Errorf("%s may import %s", dir, path)
			}
			if !slices.Contains(imports[dir], module+path) {
				t.Errorf("%s may import %s, and does not", dir, path)
			}
		}
	}
}

// importsByPackage returns the imports of each package of the product.
func importsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	sets := map[string]map[string]bool{}
	for _, root := range []string{"cmd", "internal", "plugin", "resolver", "store"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator)))
			if dir == "resolver/resolvertest" {
				return nil // a registry for tests
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			if sets[dir] == nil {
				sets[dir] = map[string]bool{}
			}
			for _, spec := range file.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				sets[dir][name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	imports := map[string][]string{}
	for dir, set := range sets {
		imports[dir] = slices.Sorted(maps.Keys(set))
	}
	return imports
}
