// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the looks at a cluster.
type counted struct {
	Watcher
	looks int
	err   error // of further looks
}

func (c *counted) Look(ctx context.Context) (World, error) {
	c.looks++
	if c.err != nil {
		return World{}, c.err
	}
	return c.Watcher.Look(ctx)
}

// While nothing is under way the cluster is looked at once a minute, which finds a node that joins. While looks fail they
// are not as rare.
func TestLooksWhileNothingIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		looks := &counted{Watcher: c}
		ctl := newController(t, c, io.Discard)
		ctl.Watcher = looks
		count := func(d time.Duration) int {
			looks.looks = 0
			runFor(t, ctl, d-time.Second)
			return looks.looks
		}
		if n := count(time.Minute); n != 12 {
			t.Errorf("%d looks in a minute in which a node is under way", n)
		}
		count(time.Hour)
		if n := count(time.Hour); n != 60 || c.ours() != 3 {
			t.Errorf("%d looks in an hour in which nothing is under way, %d nodes have it", n, c.ours())
		}
		time.AfterFunc(10*time.Minute, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.join(3, well)
		})
		if n := count(13 * time.Minute); len(c.phases(Installed)) != 4 || n > 40 {
			t.Errorf("%d nodes are installed, after %d looks", len(c.phases(Installed)), n)
		}
		looks.err = errDown
		if n := count(time.Minute); n != 12 {
			t.Errorf("%d looks in a minute in which they fail", n)
		}
	})
}
