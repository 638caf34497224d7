// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// onGet answers GET requests, those for tokens aside.
func onGet(answer http.HandlerFunc) func(*resolvertest.Registry) (undo func()) {
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

// statusOnGet answers GET requests with that status.
func statusOnGet(code int) func(*resolvertest.Registry) (undo func()) {
	return onGet(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// afterChange is what can go wrong between a check and its pull, and whether
// the cached image is used then.
var afterChange = []struct {
	name   string
	class  failure.Class
	fault  func(*resolvertest.Registry) func()
	cached bool
}{
	{"connections break", failure.Unreachable, onGet(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), true},
	{"blobs break off", failure.Unreachable, func(r *resolvertest.Registry) func() { return r.DropMidBlob(50) }, true},
	{"503", failure.Unavailable, statusOnGet(503), true},
	{"429", failure.RateLimited, statusOnGet(429), true},
	{"404", failure.NotFound, statusOnGet(404), true},
	{"404 for blobs", failure.NotFound, func(r *resolvertest.Registry) func() { return r.Status(resolvertest.Blobs, 404) }, true},
	{"401", failure.Unauthorized, onGet(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}), false},
	{"403", failure.Forbidden, statusOnGet(403), false},
	{"manifest of another digest", failure.Invalid, (*resolvertest.Registry).WrongDigest, false},
	{"corrupt blobs", failure.Invalid, func(r *resolvertest.Registry) func() { return r.Corrupt(resolvertest.Blobs) }, false},
}

// TestFailureAfterChange fails the pull once a change was seen: the classes and
// directives are those of a check.
func TestFailureAfterChange(t *testing.T) {
	t.Parallel()
	for _, tt := range afterChange {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, nodetest.OpenToAll(t))
			ref := nodetest.Named("app:1")
			old := n.Push("app:1", nodetest.Image(1))
			id := n.MustPull(ref)
			n.Push("app:1", resolvertest.Image(2, 2, 5000))
			undo := tt.fault(n.Registry)

			mark := n.Mark()
			got, err := n.Pull(ref, node.Hint("policy", "IfDigestChanged"))
			nodetest.Want(t, "pull succeeds", err == nil, tt.cached)
			nodetest.Want(t, "class", n.Decision(mark, ref).Class, string(tt.class))
			nodetest.Want(t, "target", n.Target(ref), old)
			if tt.cached {
				nodetest.Want(t, "image ID", got, id)
				nodetest.Eventually(t, "the record is marked stale", func() bool { return n.Labels(ref)["stale-reason"] == string(tt.class) })
			} else if err != nil {
				nodetest.WantWords(t, err, n.Registry.Host(), string(tt.class))
			}
			err = n.MustFail(ref, []string{n.Registry.Host(), string(tt.class)}, node.Hint("policy", "Always"))
			nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), tt.class.RegistryUnavailable())
			nodetest.Want(t, "target after Always", n.Target(ref), old)
			n.WantRunnable(ref)

			undo()
			n.MustPull(ref)
			n.WantRunnable(ref)
			nodetest.Eventually(t, "the marks are gone", func() bool { return n.Labels(ref)["stale-reason"] == "" })
		})
	}
}
