// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package critest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// focus matches the descriptions of the specs about images: those of Image
// Manager, Image Consistency and Image Identifier Consistency, and of the removal
// of images in Idempotence.
const focus = "Image"

// limit bounds a run of the suite.
const limit = 10 * time.Minute

// The states of a spec in a report of ginkgo that are no failures.
const (
	passed  = "passed"
	skipped = "skipped"
)

// report is what is read of ginkgo's JSON report.
type report struct {
	SpecReports []spec
}

// spec is the result of one spec.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct{ Message string }
}

// name is the full description.
func (s *spec) name() string {
	all := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
	return strings.TrimPrefix(all, "[k8s.io] ")
}

// runSpecs starts a node, runs the image specs against it, and returns the daemon's
// version and their results by name.
func runSpecs(t *testing.T, r *resolvertest.Registry, opts ...nodetest.Option) (version string, specs map[string]spec) {
	t.Helper()
	n := newNode(t, r, opts...)
	daemon, err := n.Client.Version(t.Context())
	n.Must(err)
	path := n.Path("report.json")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, critestEnv),
		"-runtime-endpoint", "unix://"+n.Address(), "-config", n.Path("crictl.yaml"),
		"-ginkgo.focus", focus, "-ginkgo.seed", "1", "-ginkgo.no-color", "-ginkgo.json-report", path)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError // a spec has failed: the report says which
	if err != nil && !errors.As(err, &failed) || ctx.Err() != nil {
		t.Fatalf("run critest: %v\n%s", err, out)
	}
	specs, err = readReport(path)
	if err != nil || len(specs) == 0 {
		t.Fatalf("critest ran no spec: %v\n%s", err, out)
	}
	n.Stop()
	version, _, _ = strings.Cut(daemon.Version, "+") // without metadata of the build
	return version, specs
}

// readReport returns the specs that were run, by name.
func readReport(path string) (map[string]spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []report
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, err
	}
	specs := map[string]spec{}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			// One that the focus leaves out is skipped without having begun.
			if s.LeafNodeType == "It" && (s.State != skipped || s.Failure.Message != "") {
				specs[s.name()] = s
			}
		}
	}
	return specs, nil
}
