// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestPushedWhileAManifestComes pushes another image once the registry has begun to answer with the
// manifest of the tag, of which the bytes are still to come: a pod that asks then does not join that
// check, and gets the new image, by HTTP/2 as by HTTP/1.1.
func TestPushedWhileAManifestComes(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]resolvertest.Option{
		"HTTP1": {resolvertest.WithTLS(), resolvertest.WithoutHTTP2()},
		"HTTP2": {resolvertest.WithTLS()},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged, `check_with = "Manifest"`, `verify_timeout = "2m"`))
			n.Registry = resolvertest.New(t, opts...)
			n.WriteHosts("registry.test", fmt.Sprintf("server = %q\nskip_verify = true\n", n.Registry.URL()))
			n.Start()
			ref := nodetest.Named("app:1")
			image := resolvertest.Image(1, 2, 500)
			before := n.Push("app:1", image)
			n.MustPull(ref)
			manifest, err := image.RawManifest()
			n.Must(err)
			mediaType, err := image.MediaType()
			n.Must(err)

			begun, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			t.Cleanup(release)
			var asked atomic.Int32 // for what the tag stands for
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Path != "/v2/app/manifests/1" || asked.Add(1) > 1 {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", string(mediaType))
				w.Header().Set("Docker-Content-Digest", before.String())
				w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				time.AfterFunc(500*time.Millisecond, func() { close(begun) }) // the header is there
				<-goOn
				_, _ = w.Write(manifest)
			})
			mark, done := n.Mark(), make(chan error, 2)
			pull := func() { _, err := n.Pull(ref); done <- err }
			go pull()
			<-begun
			after := n.Push("app:1", resolvertest.Image(2, 2, 500))
			go pull()
			for end := time.Now().Add(3 * time.Second); asked.Load() < 2 && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			nodetest.Want(t, "times that the registry was asked for the tag, of 2 pods of which one came after its answer began", asked.Load(), 2)
			release()
			for range 2 {
				n.Must(<-done)
			}
			for _, d := range n.Decisions(mark, ref) {
				if d.Coalesced {
					t.Errorf("a pod that asked after the push has joined a check from before it, and got %s in the place of %s", d.Digest, after)
				}
			}
		})
	}
}
