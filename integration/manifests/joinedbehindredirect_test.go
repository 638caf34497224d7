// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestPushedWhileAStorageServiceAnswers pushes another image once the registry has said which
// manifest the tag has, by a redirect to that digest at a storage service, which has not begun to
// answer: a pod that asks then does not join that check, and gets the new image.
func TestPushedWhileAStorageServiceAnswers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2m"`))
	ref := nodetest.Named("app:1")
	before := n.Push("app:1", resolvertest.Image(1, 2, 500))
	n.MustPull(ref)

	storage := resolvertest.New(t)
	for _, seed := range []int64{1, 2} {
		if _, err := storage.Push(t.Context(), "app:1", resolvertest.Image(seed, 2, 500)); err != nil {
			t.Fatal(err)
		}
	}
	redirected, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	begun := sync.OnceFunc(func() { close(redirected) })
	storage.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if path.Base(r.URL.Path) == before.String() {
			begun()
			<-goOn
		}
		next.ServeHTTP(w, r)
	})
	var current atomic.Value // which digest the tag has
	current.Store(before.String())
	var asked atomic.Int32
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/v2/app/manifests/1" {
			asked.Add(1)
			http.Redirect(w, r, storage.URL()+"/v2/app/manifests/"+current.Load().(string), http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	mark, done := n.Mark(), make(chan error, 2)
	pull := func() { _, err := n.Pull(ref); done <- err }
	go pull()
	<-redirected // the registry has answered, with the digest
	after := n.Push("app:1", resolvertest.Image(2, 2, 500))
	current.Store(after.String())
	go pull()
	for end := time.Now().Add(3 * time.Second); asked.Load() < 2 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	nodetest.Want(t, "times that the registry was asked for the tag, of 2 pods of which one came after its answer", asked.Load(), 2)
	release()
	for range 2 {
		n.Must(<-done)
	}
	pulled := 0
	for _, d := range n.Decisions(mark, ref) {
		if d.Outcome == "Pulled" && d.Digest == after.String() {
			pulled++
		}
		if d.Coalesced {
			t.Errorf("a pod that asked after the push has joined a check from before it, and got %s in the place of %s", d.Digest, after)
		}
	}
	nodetest.Want(t, "pulls of what was pushed", pulled, 1)
}
