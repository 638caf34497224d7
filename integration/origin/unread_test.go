// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestUnprovedBehindABackgroundPull holds that a caller who has proved nothing, and whom the
// registry confirms the cached image, waits for no download of another one, also where
// checks read manifests.
func TestUnprovedBehindABackgroundPull(t *testing.T) {
	t.Parallel()
	p := newPrivate(t)
	n := nodetest.NewWith(t, p.Registry, nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "0s"`, `check_with = "Manifest"`))
	ref := nodetest.Named("app:1")
	old := n.Push("app:1", resolvertest.Index(1, 2, 500))
	n.MustPull(ref, alice)
	n.Push("app:1", resolvertest.Index(2, 2, 500))
	release := n.Registry.Hang(resolvertest.Blobs)
	t.Cleanup(release)
	n.MustPull(ref, alice) // the new image is pulled in the background
	n.Tag("app", "1", old)
	n.MustPull(ref, alice)
	done := make(chan error, 1)
	go func() {
		_, err := n.Pull(ref, bob)
		done <- err
	}()
	select {
	case err := <-done:
		n.Must(err)
	case <-time.After(15 * time.Second):
		t.Error("it waits for the download")
		release()
		<-done
	}
}
