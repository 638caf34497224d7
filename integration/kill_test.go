// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestKill kills the daemon at random moments of pulls of changing tags. After
// each restart every label is true, every image that CRI lists can run, and
// the next pull is right.
func TestKill(t *testing.T) {
	t.Parallel()
	const (
		kills  = 100
		images = 4
	)
	n := newNode(t, section(changed, `verify_timeout = "1s"`))
	repo := func(i int) string { return fmt.Sprintf("app%d", i) }
	change := func(seed int) {
		for i := range images {
			n.push(repo(i)+":1", resolvertest.Image(int64(seed*images+i), 2, 20_000))
		}
	}
	pullAll := func() (wait func() (finished int)) {
		var pulls sync.WaitGroup
		var finished atomic.Int64
		for i := range images {
			pulls.Go(func() {
				if _, err := n.pull(named(repo(i) + ":1")); err == nil {
					finished.Add(1)
				}
			})
		}
		return func() int { pulls.Wait(); return int(finished.Load()) }
	}
	// How long a round of pulls takes, spans the moments of the kills.
	change(kills)
	began := time.Now()
	want(t, "pulls before any kill", pullAll()(), images)
	round := time.Since(began)
	// How far the pulls got before the kill: all of it must be met.
	var early, middle, late int
	for kill := range kills {
		change(kill)
		wait := pullAll()
		time.Sleep(rand.N(round * 5 / 4))
		n.kill()
		finished := wait()
		switch finished {
		case 0:
			early++
		case images:
			late++
		default:
			middle++
		}
		n.restart()
		n.labelsAreTrue()
		n.listedCanRun()
		if t.Failed() {
			t.Fatalf("after kill %d", kill+1)
		}
		if kill%10 == 9 {
			n.nextPullsAreRight(images, repo)
		}
	}
	t.Logf("killed before any pull was done %d times, after some %d times, after all %d times", early, middle, late)
	if early == 0 || middle+late == 0 {
		t.Error("the kills do not hit different moments")
	}
}

// labelsAreTrue holds that no record claims a digest that it does not have.
func (d *daemon) labelsAreTrue() {
	d.t.Helper()
	records, err := d.client.ImageService().List(d.t.Context())
	if err != nil {
		d.fatal("list records: %v", err)
	}
	for _, img := range records {
		if v := ownLabels(img)["verified-digest"]; v != "" && v != img.Target.Digest.String() {
			d.t.Errorf("%s has the target %s and claims %s", img.Name, img.Target.Digest, v)
		}
	}
}

// listedCanRun holds that a container can be made from each image that CRI
// lists, by each of its names. A kill can keep CRI from writing some of the
// names; one there must be.
func (d *daemon) listedCanRun() {
	d.t.Helper()
	for _, img := range d.listed() {
		runs := map[digest.Digest]error{} // by target: names share them
		for _, name := range append(append([]string{img.GetId()}, img.GetRepoTags()...), img.GetRepoDigests()...) {
			record, err := d.client.GetImage(d.t.Context(), name)
			if errdefs.IsNotFound(err) {
				continue
			}
			if err != nil {
				d.fatal("read the record of %s: %v", name, err)
			}
			err, done := runs[record.Target().Digest]
			if !done {
				err = d.snapshotable(d.t.Context(), record, "overlayfs")
				if err != nil {
					// A kill can leave a snapshot's directory without its entry
					// in the database. The first attempt to make a snapshot then
					// fails and removes it, also in stock containerd.
					err = d.snapshotable(d.t.Context(), record, "overlayfs")
				}
				runs[record.Target().Digest] = err
			}
			if err != nil {
				d.t.Errorf("%s is listed and cannot run: %v", name, err)
			}
		}
		if len(runs) == 0 {
			d.t.Errorf("%s is listed and has no record", img)
		}
	}
}

func (n *node) nextPullsAreRight(images int, repo func(int) string) {
	n.t.Helper()
	n.r.Refuse()
	for _, img := range n.listed() {
		for _, tag := range img.GetRepoTags() {
			want(n.t, "image ID from the cache", n.mustPull(tag), img.GetId())
		}
	}
	n.restore()
	for _, img := range n.listed() {
		if len(img.GetRepoTags()) == 0 {
			n.remove(img.GetId()) // what was replaced, so that the checks stay quick
		}
	}
	for i := range images {
		dgst := n.push(repo(i)+":1", image(int64(i)))
		n.mustPull(named(repo(i) + ":1"))
		want(n.t, "target", n.target(named(repo(i)+":1")), dgst)
	}
}
