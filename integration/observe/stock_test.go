// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSameAsStock pulls on a node without pullwarden and on one that observes, by
// rules that would refuse everything: the answers are the same to the letter.
func TestSameAsStock(t *testing.T) {
	t.Parallel()
	for name, images := range map[string][]string{"transfer": nil, "local": {"use_local_image_pull = true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stock := nodetest.New(t, nodetest.CRIImages(images...), nodetest.OnlySection())
			ours := nodetest.NewWith(t, stock.Registry, nodetest.CRIImages(images...),
				nodetest.Section(observing, `default_policy = "Never"`, `access = "Strict"`))
			r := stock.Registry
			dgst := stock.Push("app:1", nodetest.Image(1))
			guarded := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "secret"}))
			stock.PushTo(guarded, "app:1", nodetest.Image(3))
			for _, n := range []*nodetest.Node{stock, ours} {
				n.Serve("guarded.test", guarded)
				n.WriteHosts("broken.test", "this is no TOML")
			}
			secret, wrong := node.Credentials("alice", "secret"), node.Credentials("alice", "wrong")
			for _, step := range []struct {
				what string
				do   func()
				ref  string
				opts []node.PullOption
			}{
				{"a pull", nil, nodetest.Named("app:1"), nil},
				{"the same again", nil, nodetest.Named("app:1"), nil},
				{"a change", func() { stock.Push("app:1", nodetest.Image(2)) }, nodetest.Named("app:1"), nil},
				{"by digest", nil, nodetest.Named("app@" + dgst.String()), nil},
				{"a tag that is not there", nil, nodetest.Named("app:2"), nil},
				{"no reference", nil, "Registry.test/App:1", nil},
				{"without credentials", nil, "guarded.test/app:1", nil},
				{"with a wrong password", nil, "guarded.test/app:1", []node.PullOption{wrong}},
				{"with credentials", nil, "guarded.test/app:1", []node.PullOption{secret}},
				{"a hosts.toml that is broken", nil, "broken.test/app:1", nil},
				{"an error of the registry", func() { r.Status(resolvertest.Manifests, 503) }, nodetest.Named("app:1"), nil},
				{"forbidden", func() { stock.Restore(); r.Status(resolvertest.All, 403) }, nodetest.Named("app:1"), nil},
				{"a registry that is gone", func() { stock.Restore(); r.Refuse() }, nodetest.Named("app:1"), nil},
			} {
				if step.do != nil {
					step.do()
				}
				want, wantErr := stock.Pull(step.ref, step.opts...)
				got, err := ours.Pull(step.ref, append(step.opts, node.Hint("policy", "nonsense"))...)
				nodetest.Want(t, step.what+": the image", got, want)
				nodetest.Want(t, step.what+": the error", fmt.Sprint(err), fmt.Sprint(wantErr))
				nodetest.Want(t, step.what+": the code", status.Code(err), status.Code(wantErr))
			}
			ours.WantRunnable(nodetest.Named("app:1"))
			ours.WantTrueLabels()
		})
	}
}

// TestListOfHostDirectories holds that containerd's transfer service finds no hosts.toml
// where CRI has a list of directories, and that what is told is by the hosts.toml.
func TestListOfHostDirectories(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.HostsDirectories(2), nodetest.Section(observing))
	n.Push("app:1", nodetest.Image(1))
	if !byTransferService(t) {
		mustObserve(n, removed(n, nodetest.Named("app:1")), nodetest.Named("app:1"), "Pulled", "absent")
		return
	}
	got, err := mustFailObserved(n, nodetest.Named("app:1"))
	nodetest.WantWords(t, err, "https://registry.test/v2/app/manifests/1")
	if got.Outcome != "Pulled" || got.StockPull != "failed" || got.VerifiedBy != n.Registry.Host() {
		t.Errorf("told %+v", got)
	}
}
