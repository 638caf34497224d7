// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestStop ends pulls in the background with the daemon, in time; the next request begins
// anew.
func TestStop(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	mark := s.Mark()
	s.wantCached()
	began := time.Now()
	s.Stop()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the daemon took %s to stop", took)
	}
	nodetest.Want(t, "pull in the background", s.background(mark), "Failed (canceled)")
	s.Start()
	nodetest.Want(t, "target", s.Target(s.ref), s.old)
	nodetest.Want(t, "stale", s.Labels(s.ref)["stale-reason"], "pull_deadline")
	mark = s.Mark()
	s.wantCached()
	s.release()
	s.wantNew(mark)
}

// TestKill kills the daemon in the middle of a pull in the background.
func TestKill(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	s.wantCached()
	nodetest.Eventually(t, "the record is marked stale", func() bool { return s.Labels(s.ref)["stale-reason"] == "pull_deadline" })
	s.Kill()
	s.Start()
	nodetest.Want(t, "target", s.Target(s.ref), s.old)
	s.WantRunnable(s.ref)
	s.WantTrueLabels()
	mark := s.Mark()
	s.wantCached()
	s.release()
	s.wantNew(mark)
}

// TestRemovedMeanwhile removes the cached image while the new one is pulled: nobody gets
// what is gone, and the pull ends as it would.
func TestRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	mark := s.Mark()
	s.wantCached()
	s.Remove(s.ref)
	pulled := make(chan string, 1)
	go func() {
		id, err := s.Pull(s.ref)
		if err != nil {
			t.Error(err)
		}
		pulled <- id
	}()
	s.release()
	if id := <-pulled; id == s.id {
		t.Error("a removed image was given out")
	}
	nodetest.Eventually(t, "the pull ends", func() bool { return s.background(mark) != "" })
	nodetest.Want(t, "target", s.Target(s.ref), s.new)
	s.WantRunnable(s.ref)
	s.WantTrueLabels()
}
