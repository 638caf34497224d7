// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestChange walks a tag forward and back, under both policies that ask.
func TestChange(t *testing.T) {
	t.Parallel()
	makers := map[string]func(int64) resolvertest.Pushable{
		"images":  func(seed int64) resolvertest.Pushable { return image(seed) },
		"indexes": func(seed int64) resolvertest.Pushable { return resolvertest.Index(seed, 1, 500) },
	}
	n := newNode(t)
	for kind, maker := range makers {
		for _, policy := range []string{"Always", "IfDigestChanged"} {
			t.Run(kind+" "+policy, func(t *testing.T) {
				repo := kind + "/" + policyRepo(policy, true)
				ref := named(repo + ":1")
				first := n.push(repo+":1", maker(1))
				step := func(what string, dgst digest.Digest, outcome string) {
					t.Helper()
					mark := n.mark()
					id := n.mustPull(ref, hint("policy", policy))
					want(t, what+": outcome", n.decision(mark, ref).outcome, outcome)
					want(t, what+": target", n.target(ref), dgst)
					want(t, what+": image ID", id, n.imageStatus(ref).GetImage().GetId())
					eventually(t, what+" is verified", func() bool { return n.labels(ref)["verified-digest"] == dgst.String() })
					isRunnable(n.daemon, ref)
				}
				step("first pull", first, "Pulled")
				step("nothing new", first, "Unchanged")
				second := n.push(repo+":1", maker(2))
				step("a change", second, "Pulled")
				if err := n.r.Tag(t.Context(), repo, "1", first); err != nil {
					t.Fatal(err)
				}
				step("a rollback", first, "Pulled")
				step("nothing new again", first, "Unchanged")
			})
		}
	}
}

// TestIndexesAreComparedAsIndexes holds that an index whose image for this
// platform stays the same is still a change.
func TestIndexesAreComparedAsIndexes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ref := named("app:1")
	n.push("app:1", resolvertest.Index(1, 1, 500, "linux/amd64", "linux/arm64"))
	id := n.mustPull(ref)
	grown := n.push("app:1", resolvertest.Index(1, 1, 500, "linux/amd64", "linux/arm64", "linux/riscv64"))
	mark := n.mark()
	want(t, "image ID", n.mustPull(ref), id)
	want(t, "outcome", n.decision(mark, ref).outcome, "Pulled")
	want(t, "target", n.target(ref), grown)
}

// TestThePulledIsTheCompared moves the tag while the pull is under way: after
// each answer to a HEAD, the tag names something else.
func TestThePulledIsTheCompared(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	ref := named("app:1")
	n.push("app:1", image(1))
	n.mustPull(ref)
	moved := n.push("app:later", image(3))
	compared := n.push("app:1", image(2))
	var once sync.Once
	n.r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodHead {
			once.Do(func() {
				if err := n.r.Tag(r.Context(), "app", "1", moved); err != nil {
					t.Error(err)
				}
			})
		}
	})
	n.mustPull(ref)
	want(t, "target", n.target(ref), compared)
	eventually(t, "the compared digest is the verified one", func() bool {
		return n.labels(ref)["verified-digest"] == compared.String()
	})
	n.mustPull(ref)
	want(t, "target of the next pull", n.target(ref), moved)
}

// TestFailureAfterChange fails the pull once a change was seen: the classes and
// directives are those of a check.
func TestFailureAfterChange(t *testing.T) {
	t.Parallel()
	onGet := func(answer http.HandlerFunc) func(*resolvertest.Registry) func() {
		return func(r *resolvertest.Registry) func() {
			return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Method == http.MethodGet && req.URL.Path != "/token" {
					answer(w, req)
					return
				}
				next.ServeHTTP(w, req)
			})
		}
	}
	status := func(code int) func(*resolvertest.Registry) func() {
		return onGet(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	tests := []struct {
		name    string
		class   failure.Class
		trouble func(*resolvertest.Registry) func()
		cached  bool
	}{
		{"connections break", failure.Unreachable, onGet(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), true},
		{"blobs break off", failure.Unreachable, func(r *resolvertest.Registry) func() { return r.DropMidBlob(50) }, true},
		{"503", failure.Unavailable, status(503), true},
		{"429", failure.RateLimited, status(429), true},
		{"404", failure.NotFound, status(404), true},
		{"404 for blobs", failure.NotFound, func(r *resolvertest.Registry) func() { return r.Status(resolvertest.Blobs, 404) }, true},
		{"401", failure.Unauthorized, onGet(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}), false},
		{"403", failure.Forbidden, status(403), false},
		{"manifest of another digest", failure.Invalid, (*resolvertest.Registry).WrongDigest, false},
		{"corrupt blobs", failure.Invalid, func(r *resolvertest.Registry) func() { return r.Corrupt(resolvertest.Blobs) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNodeWith(t, openToAll(t), section(`verify_timeout = "2s"`))
			ref := named("app:1")
			old := n.push("app:1", image(1))
			id := n.mustPull(ref)
			n.push("app:1", resolvertest.Image(2, 2, 5000))
			undo := tt.trouble(n.r)

			mark := n.mark()
			got, err := n.pull(ref, hint("policy", "IfDigestChanged"))
			want(t, "pull succeeds", err == nil, tt.cached)
			want(t, "class", n.decision(mark, ref).class, string(tt.class))
			want(t, "target", n.target(ref), old)
			if tt.cached {
				want(t, "image ID", got, id)
				eventually(t, "the record is marked stale", func() bool { return n.labels(ref)["stale-reason"] == string(tt.class) })
			} else if err != nil {
				wantWords(t, err, n.r.Host(), string(tt.class))
			}
			err = n.mustFail(ref, []string{n.r.Host(), string(tt.class)}, hint("policy", "Always"))
			want(t, "RegistryUnavailable", registryUnavailable(err), tt.class.RegistryUnavailable())
			want(t, "target after Always", n.target(ref), old)
			isRunnable(n.daemon, ref)

			undo()
			n.mustPull(ref)
			isRunnable(n.daemon, ref)
			eventually(t, "the marks are gone", func() bool { return n.labels(ref)["stale-reason"] == "" })
		})
	}
}
