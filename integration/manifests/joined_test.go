// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestPushedWhileANestedManifestIsRead pushes another image once the registry has said which digest
// the tag has, while a check still reads the manifest in the index: a pod that asks then does not
// join that check, and gets the new image.
func TestPushedWhileANestedManifestIsRead(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `check_with = "Manifest"`, `verify_timeout = "2m"`))
	ref := nodetest.Named("app:1")
	n.Push("app:1", resolvertest.Index(1, 2, 500))
	n.MustPull(ref)

	reading, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	begun := sync.OnceFunc(func() { close(reading) })
	nested := platformOf(t, 1).String()
	var asked atomic.Int32 // for what the tag stands for
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case r.Method != http.MethodGet:
		case path.Base(r.URL.Path) == "1":
			asked.Add(1)
		case path.Base(r.URL.Path) == nested:
			begun()
			<-goOn
		}
		next.ServeHTTP(w, r)
	})
	mark, done := n.Mark(), make(chan error, 2)
	pull := func() { _, err := n.Pull(ref); done <- err }
	go pull()
	<-reading // the tag has been answered
	after := n.Push("app:1", resolvertest.Index(2, 2, 500))
	go pull()
	nodetest.Eventually(t, "the second pod asks for the tag", func() bool { return asked.Load() > 1 })
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
