// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// remoteLabel is on snapshots whose bytes are elsewhere. Remote snapshotters set it.
const remoteLabel = "containerd.io/snapshot/remote"

// remoteKey names a committed snapshot. It and those below it stay what they are until it
// is removed; one of the same name that is made later was created at another time.
type remoteKey struct {
	namespace, snapshotter, name string
	created                      time.Time
}

// remote reports whether a committed snapshot, or one below it, is remote.
func (i *Images) remote(ctx context.Context, sn snapshots.Snapshotter, snapshotter string, top snapshots.Info) (bool, error) {
	if i.MayBeRemote != nil && !i.MayBeRemote(snapshotter) {
		return false, nil
	}
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return false, err
	}
	key := remoteKey{namespace, snapshotter, top.Name, top.Created.UTC()}
	if remote, ok := i.remotes.Get(key); ok {
		return remote, nil
	}
	_, remote := top.Labels[remoteLabel]
	for info := top; info.Parent != "" && !remote; {
		if info, err = sn.Stat(ctx, info.Parent); err != nil {
			return false, fmt.Errorf("snapshot below %s: %w", top.Name, err)
		}
		_, remote = info.Labels[remoteLabel]
	}
	i.remotes.Add(key, remote)
	return remote, nil
}
