// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// inLineLimit is half of image_pull_progress_timeout, for which pods of mallory's wait for her unpacking.
const inLineLimit = 10 * time.Second

// Mallory, who has any secret, has an image in a repository of hers at the same registry, which takes long to unpack and is said to
// unpack to the first layer of app:1. Her pods ask for app:1, and wait for her own unpacking. Alice's pod, with other
// credentials, stands behind them, and waits for neither; however many they are, and leave before their patience ends.
func TestForeignUnpackInTheLineOfAName(t *testing.T) {
	for what, stays := range map[string][]time.Duration{
		"one pod":               {time.Minute},
		"three pods that leave": {15 * time.Second, 30 * time.Second, 45 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			ts := newTenants(t)
			img := nodetest.Image(1)
			ts.Push("app:1", img)
			alice, mallory := node.Credentials("alice", "a"), node.Credentials("mallory", "m")
			ts.Push("mallory/evil:1", ts.slowAs(img, types.DockerLayer))
			ts.begin(func(ctx context.Context) {
				_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("mallory/evil:1"), mallory, node.Pod("mallory", "evil"))
			})
			nodetest.Eventually(t, "her layer is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == 1 })
			for _, stay := range stays {
				ts.begin(func(ctx context.Context) {
					ctx, cancel := context.WithTimeout(ctx, stay) // the pod is removed
					defer cancel()
					_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("app:1"), mallory, node.Pod("mallory", "app"))
				})
				time.Sleep(time.Second) // they come one after the other
			}
			ts.pullWithin(inLineLimit, "app:1", alice, node.Pod("alice", "app"))
		})
	}
}

// So it is with an image that is on the node, and that mallory's pod has unpacked for another snapshotter.
func TestForeignUnpackInTheLineOfACompletion(t *testing.T) {
	for what, changes := range map[string]bool{"the tag has changed": true, "to be unpacked as well": false} {
		t.Run(what, func(t *testing.T) {
			ts := newTenants(t, nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = false"))
			img := nodetest.Image(1)
			ts.Push("app:1", img)
			alice, mallory := node.Credentials("alice", "a"), node.Credentials("mallory", "m")
			ts.MustPull(nodetest.Named("app:1"), alice)
			evil := nodetest.Named("mallory/evil:1")
			ts.Push("mallory/evil:1", ts.slowAs(img, types.DockerLayer, "application/x-test"))
			ts.MustPull(evil, mallory)
			native := node.RuntimeHandler("native")
			ts.begin(func(ctx context.Context) {
				_, _ = ts.Node.Node.Pull(ctx, evil, native, mallory, node.Pod("mallory", "evil"))
			})
			nodetest.Eventually(t, "her layer is being unpacked", func() bool { return ts.unpacking("native") == 1 })
			ts.begin(func(ctx context.Context) {
				_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("app:1"), native, mallory, node.Pod("mallory", "app"))
			})
			time.Sleep(2 * time.Second) // it waits by then
			opts := []node.PullOption{alice, node.Pod("alice", "app")}
			if changes {
				ts.Push("app:1", nodetest.Image(2))
			} else {
				opts = append(opts, native)
			}
			ts.pullWithin(inLineLimit, "app:1", opts...)
		})
	}
}
