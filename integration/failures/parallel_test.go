// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	crowdRefs = 20
	crowdPods = 200
)

// crowd is crowdPods pods that pull crowdRefs references of a node at once.
type crowd struct{ *nodetest.Node }

// digests are those of the references.
type digests [crowdRefs]digest.Digest

func (c crowd) repo(i int) string { return fmt.Sprintf("app%d", i%crowdRefs) }

// pushAll pushes another image to each of the references.
func (c crowd) pushAll(round int64) (all digests) {
	c.T.Helper()
	for i := range all {
		all[i] = c.Push(c.repo(i)+":1", nodetest.Image(round*crowdRefs+int64(i)))
	}
	return all
}

// pullAll lets all pods pull, each of which must succeed.
func (c crowd) pullAll() {
	c.T.Helper()
	var wg sync.WaitGroup
	for i := range crowdPods {
		wg.Go(func() {
			if _, err := c.Pull(nodetest.Named(c.repo(i) + ":1")); err != nil {
				c.T.Errorf("%s: %v", c.repo(i), err)
			}
		})
	}
	wg.Wait()
}

// want holds that each reference has one of the digests that are allowed, and
// that all that is on the node is in order.
func (c crowd) want(what string, allowed ...digests) {
	c.T.Helper()
	for i := range crowdRefs {
		got := c.Target(nodetest.Named(c.repo(i) + ":1"))
		if !slices.ContainsFunc(allowed, func(all digests) bool { return all[i] == got }) {
			c.T.Errorf("%s: %s is %s", what, c.repo(i), got)
		}
	}
	c.WantTrueLabels()
	c.WantListedRunnable()
}

// failEveryThird lets a registry fail every third request.
func failEveryThird(r *resolvertest.Registry) (undo func()) {
	var count atomic.Int64
	return r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch count.Add(1) % 9 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler)
		case 6:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// TestParallel has 200 pods pull 20 references at once: for the first time,
// with nothing changed, with everything changed, and through a registry that
// fails every third request.
func TestParallel(t *testing.T) {
	t.Parallel()
	c := crowd{nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1m"`))} // for all of them
	first := c.pushAll(1)
	c.pullAll()
	c.want("first pull", first)
	c.pullAll()
	c.want("nothing changed", first)
	second := c.pushAll(2)
	c.pullAll()
	c.want("everything changed", second)

	undo := failEveryThird(c.Registry)
	third := c.pushAll(3)
	c.pullAll() // what fails falls back
	c.want("with failures", second, third)
	undo()
	c.Recover() // no fault before counts
	c.pullAll()
	c.want("in the end", third)
}
