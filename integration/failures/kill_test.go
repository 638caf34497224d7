// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// tags are several tags on a node that change at once.
type tags struct {
	*nodetest.Node
	count int
}

// repo is the repository of one of the tags.
func (ts tags) repo(i int) string { return fmt.Sprintf("app%d", i) }

// change pushes another image to each of the tags.
func (ts tags) change(seed int) {
	ts.T.Helper()
	for i := range ts.count {
		ts.Push(ts.repo(i)+":1", resolvertest.Image(int64(seed*ts.count+i), 2, 20_000))
	}
}

// pullAll starts to pull all tags at once. The function that it returns waits
// for the pulls, and returns how many succeeded.
func (ts tags) pullAll() (wait func() (finished int)) {
	var pulls sync.WaitGroup
	var finished atomic.Int64
	for i := range ts.count {
		pulls.Go(func() {
			if _, err := ts.Pull(nodetest.Named(ts.repo(i) + ":1")); err == nil {
				finished.Add(1)
			}
		})
	}
	return func() int { pulls.Wait(); return int(finished.Load()) }
}

// nextPullsAreRight holds that what is cached is used while the registry is
// down, and that changes are pulled once it is back.
func (ts tags) nextPullsAreRight() {
	ts.T.Helper()
	ts.Registry.Refuse()
	for _, img := range ts.List() {
		for _, tag := range img.GetRepoTags() {
			nodetest.Want(ts.T, "image ID from the cache", ts.MustPull(tag), img.GetId())
		}
	}
	ts.Restore()
	for _, img := range ts.List() {
		if len(img.GetRepoTags()) == 0 {
			ts.Remove(img.GetId()) // what was replaced, so that the checks stay quick
		}
	}
	for i := range ts.count {
		dgst := ts.Push(ts.repo(i)+":1", nodetest.Image(int64(i)))
		ts.MustPull(nodetest.Named(ts.repo(i) + ":1"))
		nodetest.Want(ts.T, "target", ts.Target(nodetest.Named(ts.repo(i)+":1")), dgst)
	}
}

// TestKill kills the daemon at random moments of pulls of changing tags. After
// each restart every label is true, every image that CRI lists can run, and
// the next pull is right.
func TestKill(t *testing.T) {
	t.Parallel()
	const kills = 100
	ts := tags{nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged)), 4}
	// How long a round of pulls takes, spans the moments of the kills.
	ts.change(kills)
	began := time.Now()
	nodetest.Want(t, "pulls before any kill", ts.pullAll()(), ts.count)
	round := time.Since(began)
	// How far the pulls got before the kill: all of it must be met.
	var early, middle, late int
	for kill := range kills {
		ts.change(kill)
		wait := ts.pullAll()
		time.Sleep(rand.N(round * 5 / 4))
		ts.Kill()
		switch wait() {
		case 0:
			early++
		case ts.count:
			late++
		default:
			middle++
		}
		ts.Restart()
		ts.WantTrueLabels()
		ts.WantListedRunnable()
		if t.Failed() {
			t.Fatalf("after kill %d", kill+1)
		}
		if kill%10 == 9 {
			ts.nextPullsAreRight()
		}
	}
	t.Logf("killed before any pull was done %d times, after some %d times, after all %d times", early, middle, late)
	if early == 0 || middle+late == 0 {
		t.Error("the kills do not hit different moments")
	}
}
