// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"strings"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// Want fails the test where got is not what is wanted.
func Want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// WantWords fails the test where the error lacks one of the words.
func WantWords(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in the error: %v", word, err)
		}
	}
}

// WantNoWords fails the test where the error has one of the words.
func WantNoWords(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%q is in the error: %v", word, err)
		}
	}
}

// Eventually polls ok until it holds, and ends the test where that takes longer
// than 2 minutes.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// WantRunnable fails the test where no container could be made from an image.
func (n *Node) WantRunnable(ref string) {
	n.T.Helper()
	n.WantRunnableBy("overlayfs", ref)
}

// WantRunnableBy is WantRunnable with a snapshotter.
func (n *Node) WantRunnableBy(snapshotter, ref string) {
	n.T.Helper()
	if err := n.Runnable(n.T.Context(), ref, snapshotter); err != nil {
		n.T.Errorf("%s cannot run: %v", ref, err)
	}
}

// WantTrueLabels fails the test where a record claims a digest that it does not
// have, or has labels that are not bound to it.
func (n *Node) WantTrueLabels() {
	n.T.Helper()
	records, err := n.Client.ImageService().List(n.T.Context())
	if err != nil {
		n.T.Fatalf("list records: %v", err)
	}
	for _, img := range records {
		own := node.Own(img.Labels)
		if v := own["verified-digest"]; v != "" && v != img.Target.Digest.String() {
			n.T.Errorf("%s has the target %s and claims %s", img.Name, img.Target.Digest, v)
		}
		if bound := img.Target.Digest.String() + " " + img.Name; len(own) > 0 && own["record"] != bound {
			n.T.Errorf("%s has labels of %q, want %q", img.Name, own["record"], bound)
		}
	}
}

// WantListedRunnable fails the test where no container could be made from an
// image that CRI lists, by any of its names. A kill can keep CRI from writing
// some of the names; one there must be.
func (n *Node) WantListedRunnable() {
	n.T.Helper()
	for _, img := range n.List() {
		n.wantNamesRunnable(img)
	}
}

func (n *Node) wantNamesRunnable(img *runtimeapi.Image) {
	n.T.Helper()
	runs := map[digest.Digest]error{} // by target: names share them
	for _, name := range append(append([]string{img.GetId()}, img.GetRepoTags()...), img.GetRepoDigests()...) {
		record, err := n.Client.GetImage(n.T.Context(), name)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			n.T.Fatalf("read the record of %s: %v", name, err)
		}
		err, done := runs[record.Target().Digest]
		if !done {
			err = n.snapshotable(record)
			runs[record.Target().Digest] = err
		}
		if err != nil {
			n.T.Errorf("%s is listed and cannot run: %v", name, err)
		}
	}
	if len(runs) == 0 {
		n.T.Errorf("%s is listed and has no record", img)
	}
}

// snapshotable tries twice. A kill can leave a snapshot's directory without its
// entry in the database. The first attempt to make a snapshot then fails and
// removes it, also in stock containerd.
func (n *Node) snapshotable(img containerd.Image) error {
	err := n.Snapshotable(n.T.Context(), img, "overlayfs")
	if err != nil {
		err = n.Snapshotable(n.T.Context(), img, "overlayfs")
	}
	return err
}
