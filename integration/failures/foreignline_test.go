// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// inLineLimit is half of image_pull_progress_timeout, for which pods of mallory's wait for her unpacking.
const inLineLimit = 10 * time.Second

// Mallory, who has any secret, has an image in a repository of hers at the same registry, which takes long to unpack and is said to
// unpack to the first layer of app:1. Her pods ask for app:1. Alice's pod stands behind them,
// and waits for neither for long; however many they are, by whichever names they ask, and if they leave before their patience ends.
func TestForeignUnpackInTheLineOfAName(t *testing.T) {
	copies := []string{"app:copy1", "app:copy2", "app:copy3", "app:copy4"}
	mallorys := node.Credentials("mallory", "m")
	for what, tc := range map[string]struct {
		evil   string
		before []string // that mallory's pods ask for
		stays  time.Duration
		as     node.PullOption // her credentials
	}{
		"one pod":                  {"mallory/evil:1", []string{"app:1"}, time.Minute, mallorys},
		"three pods that leave":    {"mallory/evil:1", []string{"app:1", "app:1", "app:1"}, 15 * time.Second, mallorys},
		"pods by several names":    {"mallory/evil:1", append(copies, "app:1"), time.Minute, mallorys},
		"from the same repository": {"app:evil", []string{"app:1"}, time.Minute, mallorys},
		"the same credentials":     {"mallory/evil:1", []string{"app:1"}, time.Minute, node.Credentials("alice", "a")},
		"nobody before":            {"mallory/evil:1", nil, 0, node.Credentials("alice", "a")},
		"… in the same repository": {"app:evil", nil, 0, node.Credentials("alice", "a")},
	} {
		t.Run(what, func(t *testing.T) {
			ts := newTenants(t)
			img := nodetest.Image(1)
			for _, name := range append(tc.before, "app:1") {
				ts.Push(name, img)
			}
			ts.Push(tc.evil, ts.slowAs(img, types.DockerLayer))
			ts.begin(func(ctx context.Context) {
				_, _ = ts.Node.Node.Pull(ctx, nodetest.Named(tc.evil), tc.as, node.Pod("mallory", "evil"))
			})
			nodetest.Eventually(t, "her layer is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == 1 })
			for i, name := range tc.before {
				ts.begin(func(ctx context.Context) {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(i+1)*tc.stays) // the pod is removed
					defer cancel()
					_, _ = ts.Node.Node.Pull(ctx, nodetest.Named(name), tc.as, node.Pod("mallory", "app"))
				})
				time.Sleep(time.Second) // they come one after the other
			}
			ts.pullWithin(inLineLimit, "app:1", node.Credentials("alice", "a"), node.Pod("alice", "app"))
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

// So it is with a download: the registry is long in sending the first layer of app:1 for mallory's repository.
func TestForeignDownloadInTheLineOfAName(t *testing.T) {
	ts := newTenants(t)
	img := nodetest.Image(1)
	ts.Push("app:1", img)
	ts.Push("mallory/evil:1", img)
	var asked atomic.Bool
	ts.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/mallory/evil/blobs/") {
			next.ServeHTTP(w, r)
			return
		}
		asked.Store(true)
		trickle(w, r)
	})
	mallory := node.Credentials("mallory", "m")
	ts.begin(func(ctx context.Context) {
		_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("mallory/evil:1"), mallory, node.Pod("mallory", "evil"))
	})
	nodetest.Eventually(t, "the layer is being sent", asked.Load)
	time.Sleep(time.Second) // both of its blobs
	ts.begin(func(ctx context.Context) {
		_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("app:1"), mallory, node.Pod("mallory", "app"))
	})
	time.Sleep(time.Second)
	ts.pullWithin(inLineLimit, "app:1", node.Credentials("alice", "a"), node.Pod("alice", "app"))
}
