// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// failFirst lets the first n answers about manifests fail.
func failFirst(r *resolvertest.Registry, n int64, fail http.HandlerFunc) (failed *atomic.Int64, undo func()) {
	failed = &atomic.Int64{}
	undo = r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if resolvertest.Of("", resolvertest.Manifests)(resolvertest.Request{Path: req.URL.Path}) && failed.Add(1) <= n {
			fail(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
	return failed, undo
}

// TestRetries holds that what passes by itself within the budget is not seen.
func TestRetries(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	for name, fail := range map[string]http.HandlerFunc{
		"503":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"502":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"no answer":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"retry after": retryAfter("1"),
	} {
		t.Run(name, func(t *testing.T) {
			n := n.In(t)
			failed, undo := failFirst(n.Registry, 1, fail)
			defer undo()
			n.MustPull(ref, node.Hint("policy", "Always"))
			if failed.Load() < 2 {
				t.Error("the failure was not met")
			}
		})
	}
}

func retryAfter(value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", value)
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// TestRetryAfter holds that Retry-After is honoured where it fits the budget,
// and that where it does not, the check ends at once, and not with the budget.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`verify_timeout = "1m"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)

	_, undo := failFirst(n.Registry, 1, retryAfter("2"))
	n.Registry.Forget()
	n.MustPull(ref)
	undo()
	all := slices.DeleteFunc(n.Registry.Requests(), resolvertest.Probe)
	if len(all) < 2 || all[1].At.Sub(all[0].At) < 1900*time.Millisecond {
		t.Errorf("the registry asked for 2s and got %v", all)
	}

	for _, value := range []string{"120", strconv.Itoa(1 << 40), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		_, undo := failFirst(n.Registry, 100, retryAfter(value))
		began := time.Now()
		err := n.MustFail(ref, []string{"rate_limited"})
		undo()
		nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Retry-After: %s: took %v, want no waiting", value, took)
		}
	}
}
