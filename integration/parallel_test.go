// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
)

// TestParallel has 200 pods pull 20 references at once: for the first time,
// with nothing changed, with everything changed, and through a registry that
// fails every third request.
func TestParallel(t *testing.T) {
	t.Parallel()
	const refs, pods = 20, 200
	n := newNode(t, section(changed))
	repo := func(i int) string { return fmt.Sprintf("app%d", i%refs) }
	pushAll := func(round int64) (digests [refs]digest.Digest) {
		t.Helper()
		for i := range refs {
			digests[i] = n.push(repo(i)+":1", image(round*refs+int64(i)))
		}
		return digests
	}
	pullAll := func() {
		t.Helper()
		var wg sync.WaitGroup
		for i := range pods {
			wg.Go(func() {
				if _, err := n.pull(named(repo(i) + ":1")); err != nil {
					t.Errorf("%s: %v", repo(i), err)
				}
			})
		}
		wg.Wait()
	}
	is := func(what string, allowed ...[refs]digest.Digest) {
		t.Helper()
		for i := range refs {
			got, ok := n.target(named(repo(i)+":1")), false
			for _, digests := range allowed {
				ok = ok || got == digests[i]
			}
			if !ok {
				t.Errorf("%s: %s is %s", what, repo(i), got)
			}
		}
		n.labelsAreTrue()
		n.listedCanRun()
	}

	first := pushAll(1)
	pullAll()
	is("first pull", first)
	pullAll()
	is("nothing changed", first)
	second := pushAll(2)
	pullAll()
	is("everything changed", second)

	var count atomic.Int64
	undo := n.r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
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
	third := pushAll(3)
	pullAll() // what fails falls back
	is("with failures", second, third)
	undo()
	pullAll()
	is("in the end", third)
}
