// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

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
	n := newNode(t)
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	for name, fail := range map[string]http.HandlerFunc{
		"503":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"502":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"no answer":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"retry after": retryAfter("1"),
	} {
		t.Run(name, func(t *testing.T) {
			failed, undo := failFirst(n.r, 1, fail)
			defer undo()
			n.mustPull(ref, hint("policy", "Always"))
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
// and that where it does not, the check ends at once.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`verify_timeout = "10s"`))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)

	_, undo := failFirst(n.r, 1, retryAfter("2"))
	n.r.Forget()
	n.mustPull(ref)
	undo()
	if all := n.r.Requests(); len(all) < 2 || all[1].At.Sub(all[0].At) < 1900*time.Millisecond {
		t.Errorf("the registry asked for 2s and got %v", all)
	}

	for _, value := range []string{"60", strconv.Itoa(1 << 40), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		_, undo := failFirst(n.r, 100, retryAfter(value))
		began := time.Now()
		err := n.mustFail(ref, []string{"rate_limited"})
		undo()
		want(t, "RegistryUnavailable", registryUnavailable(err), true)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Retry-After: %s: took %v, want no waiting", value, took)
		}
	}
}

// TestFreshToken holds that one 401 is no verdict: it counts after a retry
// with a fresh token.
func TestFreshToken(t *testing.T) {
	t.Parallel()
	users := map[string]string{"ann": "secret"}
	n := newNodeWith(t, resolvertest.New(t, resolvertest.WithTokenAuth(users)))
	n.push("app:1", image(1))
	ref, ann := named("app:1"), credentials("ann", "secret")
	n.mustPull(ref, ann)

	n.r.RevokeTokens()
	n.mustPull(ref, ann)

	var once atomic.Bool
	undo := n.r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "" && r.URL.Path != "/token" && once.CompareAndSwap(false, true) {
			n.r.RevokeTokens() // between handing the token out and its first use
		}
		next.ServeHTTP(w, r)
	})
	n.mustPull(ref, ann)
	undo()
	want(t, "the token was revoked", once.Load(), true)

	err := n.mustFail(ref, []string{"unauthorized", n.r.Host()}, credentials("ann", "wrong"))
	wantNot(t, err, "wrong")
	_ = n.mustFail(ref, []string{"unauthorized", n.r.Host()})
	n.r.Allow(func(string, string) bool { return false })
	n.r.RevokeTokens()
	_ = n.mustFail(ref, []string{"unauthorized", n.r.Host()}, ann)
	want(t, "secrets in the log", len(n.logged(0, "secret")), 0)
}

// TestTokenServerFails holds that a failing token server is judged like the
// registry.
func TestTokenServerFails(t *testing.T) {
	t.Parallel()
	for code, class := range map[int]string{500: "unavailable", 503: "unavailable", 429: "rate_limited", 401: "unauthorized"} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			n := newNodeWith(t, openToAll(t), section(`verify_timeout = "1s"`))
			n.push("app:1", image(1))
			n.r.Status(resolvertest.Tokens, code)
			_ = n.mustFail(named("app:1"), []string{n.r.Host(), class})
		})
	}
}
