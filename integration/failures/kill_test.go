// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"math/rand/v2"
	"net/http"
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

// round is a pull of all tags at once.
type round struct {
	undo     func()        // of what counts the requests
	requests chan struct{} // one for each that has come
	results  chan error    // of the pulls
	left     int           // pulls without a result so far
	finished int           // pulls that succeeded, of the others
}

// pullAll starts a round. The caller waits for it.
func (ts tags) pullAll() *round {
	r := &round{requests: make(chan struct{}, 1000), results: make(chan error, ts.count), left: ts.count}
	r.undo = ts.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		r.requests <- struct{}{}
		next.ServeHTTP(w, req)
	})
	for i := range ts.count {
		go func() {
			_, err := ts.Pull(nodetest.Named(ts.repo(i) + ":1"))
			r.results <- err
		}()
	}
	return r
}

// reach returns when so many requests have come and so many pulls have succeeded, or
// none is left.
func (r *round) reach(requests, finished int) {
	for requests > 0 || r.finished < finished {
		select {
		case <-r.requests:
			requests--
		case err := <-r.results:
			if r.ended(err); r.left == 0 {
				return
			}
		}
	}
}

func (r *round) ended(err error) {
	r.left--
	if err == nil {
		r.finished++
	}
}

// wait waits for the pulls, and returns how many succeeded.
func (r *round) wait() (finished int) {
	for r.left > 0 {
		r.ended(<-r.results)
	}
	r.undo()
	return r.finished
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
	ts.Recover()
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

// TestKill kills the daemon at all moments of pulls of changing tags: shortly after each
// request, and after the end of each pull, however long they take. After each restart
// every label is true, every image that CRI lists can run, and the next pull is right.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, daemon := range []string{"one daemon", "another"} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			killAtAllMoments(t, 30)
		})
	}
}

func killAtAllMoments(t *testing.T, kills int) {
	t.Helper()
	ts := tags{nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged)), 4}
	ts.change(kills)
	began := time.Now()
	first := ts.pullAll()
	nodetest.Want(t, "pulls before any kill", first.wait(), ts.count)
	requests := len(first.requests)
	pause := time.Since(began) / time.Duration(requests) // from one to the next
	// How far the pulls got before the kill: all of it must be met.
	var early, middle, late int
	for kill := range kills {
		ts.change(kill)
		pulls, moment := ts.pullAll(), kill%(requests+ts.count+1)
		pulls.reach(min(moment, requests), moment-requests)
		time.Sleep(rand.N(pause))
		ts.Kill()
		switch pulls.wait() {
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
