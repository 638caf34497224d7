// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// activated is a mount manager that has one activation.
type activated struct {
	mount.Manager
	name   string
	failed error
}

func (a *activated) Deactivate(_ context.Context, name string) error {
	if a.failed == nil && name != a.name {
		return errdefs.ErrNotFound
	}
	if a.failed == nil {
		a.name = ""
	}
	return a.failed
}

// volume makes the directory of a volume, as CRI does, named by a digest, with the layers of an image.
func (n *node) volume(d digest.Digest, chain string, opts ...snapshots.Opt) (dir string) {
	n.t.Helper()
	return n.volumeBy("native", "", d, chain, opts...)
}

// volumeBy is volume, by a snapshotter, for a pod whose lease keeps it; "" for none.
func (n *node) volumeBy(snapshotter, sandbox string, d digest.Digest, chain string, opts ...snapshots.Opt) (dir string) {
	n.t.Helper()
	ctx := n.ctx
	if sandbox != "" {
		_, err := n.Leases.Create(ctx, leases.WithID(sandbox))
		if err != nil && !errdefs.IsAlreadyExists(err) {
			n.t.Fatal(err)
		}
		ctx = leases.WithLease(ctx, sandbox)
	}
	dir = filepath.Join(n.t.TempDir(), "image-volumes", sandbox, d.Encoded())
	_, err := n.Snapshotters[snapshotter].Prepare(ctx, dir, chain, opts...)
	check(n.t, err)
	return dir
}

// chain pulls an image, and returns its ID and the name of its snapshot.
func (n *node) chain(ref string) (id, chain string) {
	n.t.Helper()
	id = n.pull(settings(), ref, "")
	img, err := n.Images.Get(n.ctx, ref)
	check(n.t, err)
	diffIDs, err := img.RootFS(n.ctx, n.Contents, platforms.Default())
	check(n.t, err)
	return id, identity.ChainID(diffIDs).String()
}

// The directory of a volume is of an image if it stands on its layers, and has the name of a manifest, or an index, of it: another
// image may be mounted later where that of another one is.
func TestMountedOf(t *testing.T) {
	n := newNode(t)
	ref, target := n.push("team/one:1", resolvertest.Image(1, 2, 100))
	id, chain := n.chain(ref)
	other, otherTarget := n.push("team/other:1", resolvertest.Image(2, 2, 100))
	_, otherChain := n.chain(other)
	index, indexTarget := n.push("team/index:1", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: resolvertest.Image(1, 2, 100)}))
	if of := n.pull(settings(), index, ""); of != id {
		t.Fatalf("the index is of %s", of)
	}
	p := n.puller(settings())
	check(t, p.Unpack(n.ctx, id, []string{ref}, "second"))
	both := n.volume(target, chain)
	_, err := n.Snapshotters["second"].Prepare(n.ctx, both, "")
	check(t, err)
	for what, tc := range map[string]struct {
		dir  string
		want bool
	}{
		"its own":                      {n.volume(target, chain), true},
		"by its index":                 {n.volume(indexTarget, chain), true},
		"with owners":                  {n.volume(target, chain, snapshots.WithLabels(map[string]string{snapshots.LabelSnapshotUIDMapping: "0:100000:65536"})), true},
		"by another snapshotter":       {n.volumeBy("second", "", target, chain), true},
		"by two, of which one is not":  {both, false},
		"another image":                {n.volume(otherTarget, otherChain), false},
		"another one by its name":      {n.volume(target, otherChain), false},
		"in the directory of another":  {n.volume(otherTarget, chain), false},
		"by a manifest that is gone":   {n.volume(digest.FromString("gone"), chain), false},
		"by no digest":                 {n.volume(digest.Digest("sha256:"+strings.Repeat("0", 65)), chain), false},
		"a directory without snapshot": {filepath.Join(t.TempDir(), target.Encoded()), false},
	} {
		if mounted, err := p.MountedOf(n.ctx, tc.dir, id); mounted != tc.want || err != nil {
			t.Errorf("%s: %v, %v", what, mounted, err)
		}
	}
	if mounted, err := p.MountedOf(n.ctx, n.volume(target, chain), digest.FromString("gone").String()); mounted || !errdefs.IsNotFound(err) {
		t.Errorf("an image that is not there: %v, %v", mounted, err)
	}
	own := n.volume(target, chain)
	n.Snapshotters["broken"] = broken{}
	if mounted, err := p.MountedOf(n.ctx, own, id); !mounted || err != nil {
		t.Errorf("beside a snapshotter that is broken: %v, %v", mounted, err)
	}
	if mounted, err := p.MountedOf(n.ctx, filepath.Join(t.TempDir(), target.Encoded()), id); mounted || err == nil {
		t.Errorf("where a snapshotter that is broken alone may have it: %v, %v", mounted, err)
	}
}

// broken is a snapshotter that answers nothing.
type broken struct{ snapshots.Snapshotter }

func (broken) Stat(context.Context, string) (snapshots.Info, error) {
	return snapshots.Info{}, errdefs.ErrUnavailable
}

// The directories of a pod are misnamed that stand on the layers of another image than that whose manifest they are named by, in
// whichever snapshotter; those of other pods are of no interest, nor is what else is in the lease of the pod. A few are looked at.
func TestMisnamed(t *testing.T) {
	const pod, other = "pod", "other"
	n := newNode(t)
	ref, target := n.push("team/one:1", resolvertest.Image(1, 2, 100))
	id, chain := n.chain(ref)
	otherRef, otherTarget := n.push("team/other:1", resolvertest.Image(2, 2, 100))
	otherID, otherChain := n.chain(otherRef)
	p := n.puller(settings())
	check(t, p.Unpack(n.ctx, id, []string{ref}, "second"))
	check(t, p.Unpack(n.ctx, otherID, []string{otherRef}, "second"))
	misnamed := func(want ...string) {
		t.Helper()
		got, err := p.Misnamed(n.ctx, pod)
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	misnamed() // without a lease

	n.volumeBy("native", pod, target, chain)
	n.volumeBy("second", pod, otherTarget, otherChain)
	n.volumeBy("native", pod, digest.FromString("gone"), chain)
	n.volumeBy("native", other, target, otherChain)
	ctx := leases.WithLease(n.ctx, pod)
	for _, key := range []string{"container", "/image-volumes/" + other + "/" + target.Encoded(), "/image-volumes/" + pod + "/in/" + target.Encoded()} {
		_, err := n.Snapshotters["native"].Prepare(ctx, key, otherChain)
		check(t, err)
	}
	misnamed()
	one, two := n.volumeBy("native", pod, target, otherChain), n.volumeBy("second", pod, otherTarget, chain)
	_, err := n.Snapshotters["native"].Prepare(ctx, two, chain)
	check(t, err)
	misnamed(one, two)
	check(t, p.Unmount(n.ctx, one))
	misnamed(two)

	for range maxVolumeDirs {
		n.volumeBy("native", pod, target, otherChain)
	}
	if got, err := p.Misnamed(n.ctx, pod); err != nil || len(got) == 0 || len(got) > maxVolumeDirs {
		t.Errorf("%d of many, %v", len(got), err)
	}
}

// A directory that is unmounted has neither an activation nor a snapshot, of which CRI would mount it again. One of which the
// former stays keeps the latter, by which it is told.
func TestUnmountVolume(t *testing.T) {
	n := newNode(t)
	dir := n.volume(digest.FromString("manifest"), "")
	_, err := n.Snapshotters["second"].Prepare(n.ctx, dir, "")
	check(t, err)
	mounts := &activated{name: "cri-image-mount-" + dir, failed: errors.New("busy")}
	n.Mounts = mounts
	p := n.puller(settings())
	has := func() bool {
		found, err := p.snapshotsOf(n.ctx, dir)
		check(t, err)
		return len(found) > 0
	}
	if err := p.Unmount(n.ctx, dir); !errors.Is(err, mounts.failed) || !has() {
		t.Errorf("with an activation that stays: %v", err)
	}
	mounts.failed = nil
	for range 2 { // also where nothing is left
		if err := p.Unmount(n.ctx, dir); err != nil || has() || mounts.name != "" {
			t.Errorf("got %v, activated %q", err, mounts.name)
		}
	}
	n.Mounts = nil
	check(t, n.puller(settings()).Unmount(n.ctx, dir))
}
