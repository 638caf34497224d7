// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// An image is remote if one of its snapshots is, until that is removed and made anew.
func TestRemote(t *testing.T) {
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	sn := db.Snapshotter("native")
	commit := func(name, parent string, labels map[string]string) {
		t.Helper()
		if _, err := sn.Prepare(ctx, "work", parent); err != nil {
			t.Fatal(err)
		}
		if err := sn.Commit(ctx, name, "work", snapshots.WithLabels(labels)); err != nil {
			t.Fatal(err)
		}
	}
	i := New(db, 0)
	want := func(name string, want bool) {
		t.Helper()
		info, err := sn.Stat(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // from memory, too
			if got, err := i.remote(ctx, sn, "native", info); err != nil || got != want {
				t.Errorf("%s is remote: %v, %v", name, got, err)
			}
		}
	}
	remote := map[string]string{remoteLabel: "remote"}
	commit("base", "", remote)
	commit("middle", "base", nil)
	commit("top", "middle", map[string]string{"containerd.io/gc.root": "now"})
	commit("local", "", map[string]string{"containerd.io/gc.root": "now"})
	commit("remote top", "local", remote)
	for name, is := range map[string]bool{"base": true, "middle": true, "top": true, "local": false, "remote top": true} {
		want(name, is)
	}
	if err := sn.Remove(ctx, "remote top"); err != nil {
		t.Fatal(err)
	}
	commit("remote top", "local", nil)
	want("remote top", false)
	if _, err := i.remote(t.Context(), sn, "native", snapshots.Info{Name: "x"}); err == nil {
		t.Error("without a namespace there is an answer")
	}
	i.MayBeRemote = func(snapshotter string) bool { return snapshotter != "native" }
	want("base", false)
}
