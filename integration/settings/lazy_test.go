// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLazySnapshotter holds that a snapshotter that may fetch layers by itself is
// named at the start, and that requests under a list of sources fail with the
// setting, whatever the policy, without a word to a registry.
func TestLazySnapshotter(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	n := nodetest.Prepare(t, nodetest.CRIImages("disable_snapshot_annotations = false"), nodetest.Tables(`
[proxy_plugins.lazy]
  type = 'snapshot'
  address = '/run/nobody-listens-here.sock'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.lazy]
  runtime_type = 'io.containerd.runc.v2'
  snapshotter = 'lazy'
`))
	n.WriteRules("strict.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/strict\"]\nallowed_sources = [%q]\n", r.Host()))
	n.Start()
	n = n.With(r)
	const setting = "disable_snapshot_annotations = false"
	named := n.LogLines(0, "pullwarden: ", `"level":"warning"`, setting, "lazy", "allowed_sources")
	nodetest.Want(t, "lines that name the setting", len(named), 1)

	n.Push("strict:1", nodetest.Image(1))
	ref := nodetest.Named("strict:1")
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		n.MustFail(ref, []string{setting, "lazy", "strict.toml"}, node.RuntimeHandler("lazy"), node.Hint("policy", policy))
	}
	nodetest.Want(t, "requests", n.Requests(), "")
	n.MustPull(ref) // by another snapshotter
	n.WantRunnable(ref)
}
