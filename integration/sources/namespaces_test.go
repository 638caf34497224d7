// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestEveryNamespaceHasSources pulls as `ctr -n other images pull` does. The
// record has its sources, and CRI's namespace knows nothing of it.
func TestEveryNamespaceHasSources(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	ref := nodetest.Named("app:1")
	m.both("app:1", nodetest.Image(1))
	ctx := namespaces.WithNamespace(t.Context(), "other")
	m.Must(m.Node.Node.Transfer(ctx, ref))
	img, err := m.Node.Node.Record(ctx, ref)
	m.Must(err)
	got := node.Own(img.Labels)
	nodetest.Want(t, "pull-source", got["pull-source"], m.mirror.Host()+"/app:1")
	nodetest.Want(t, "it is pulled at some time", got["pulled-at"] != "", true)
	nodetest.Want(t, "what its labels are for", got["record"], img.Target.Digest.String()+" "+ref)
	nodetest.Want(t, "that it has the layers", got["has-layers"], "true")
	nodetest.Want(t, "number of labels", len(got), 4)

	if _, ok := m.Record(ref); ok {
		t.Error("CRI's namespace has a record of it")
	}
	m.MustFail(ref, nil, node.Hint("policy", "Never"))
	m.MustPull(ref)
	nodetest.Want(t, "pulled in CRI's namespace", m.Labels(ref)["verified-digest"], img.Target.Digest.String())
}
