// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// pushedMeanwhile has two pods ask for app:1, of which one comes after a push in the middle of the
// other's check. It does not join that, and gets the new image.
type pushedMeanwhile struct {
	begun   chan struct{} // closed when the registry has begun to answer the first pod for the tag
	asked   atomic.Int32  // how often the registry was asked for the tag
	goOn    chan struct{} // closed when the first pod's answer may go on
	release func()        // closes it
}

func newPushedMeanwhile(t *testing.T) *pushedMeanwhile {
	t.Helper()
	p := &pushedMeanwhile{begun: make(chan struct{}), goOn: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.goOn) })
	t.Cleanup(p.release)
	return p
}

func (p *pushedMeanwhile) want(t *testing.T, n *nodetest.Node, push func() digest.Digest) {
	t.Helper()
	ref := nodetest.Named("app:1")
	mark, done := n.Mark(), make(chan error, 2)
	pull := func() { _, err := n.Pull(ref); done <- err }
	go pull()
	<-p.begun
	after := push()
	go pull()
	nodetest.Eventually(t, "the second pod asks for the tag", func() bool { return p.asked.Load() > 1 })
	p.release()
	for range 2 {
		n.Must(<-done)
	}
	given := 0
	for _, d := range n.Decisions(mark, ref) {
		if d.Digest == after.String() { // Unchanged, where the first one was acted upon during the pull
			given++
		}
		if d.Coalesced {
			t.Errorf("a pod that asked after the push has joined a check from before it, and got %s in the place of %s", d.Digest, after)
		}
	}
	if given == 0 { // both, where the second one's answer was acted upon first
		t.Error("no pod got what was pushed")
	}
}

// TestPushedWhileANestedManifestIsRead pushes another image once the registry has said which digest
// the tag has, while a check still reads the manifest in the index.
func TestPushedWhileANestedManifestIsRead(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `check_with = "Manifest"`, `verify_timeout = "2m"`))
	n.Push("app:1", resolvertest.Index(1, 2, 500))
	n.MustPull(nodetest.Named("app:1"))

	p := newPushedMeanwhile(t)
	begun := sync.OnceFunc(func() { close(p.begun) })
	nested := platformOf(t, 1).String()
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case r.Method != http.MethodGet:
		case path.Base(r.URL.Path) == "1":
			p.asked.Add(1)
		case path.Base(r.URL.Path) == nested:
			begun()
			<-p.goOn
		}
		next.ServeHTTP(w, r)
	})
	p.want(t, n, func() digest.Digest { return n.Push("app:1", resolvertest.Index(2, 2, 500)) })
}

// TestPushedWhileAManifestComes pushes another image once the registry has begun to answer with the
// manifest of the tag, of which the bytes are still to come, by HTTP/2 as by HTTP/1.1.
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
			image := resolvertest.Image(1, 2, 500)
			before := n.Push("app:1", image)
			n.MustPull(nodetest.Named("app:1"))
			manifest, err := image.RawManifest()
			n.Must(err)
			mediaType, err := image.MediaType()
			n.Must(err)

			p := newPushedMeanwhile(t)
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Path != "/v2/app/manifests/1" || p.asked.Add(1) > 1 {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", string(mediaType))
				w.Header().Set("Docker-Content-Digest", before.String())
				w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				time.AfterFunc(500*time.Millisecond, func() { close(p.begun) }) // the header is there
				<-p.goOn
				_, _ = w.Write(manifest)
			})
			p.want(t, n, func() digest.Digest { return n.Push("app:1", resolvertest.Image(2, 2, 500)) })
		})
	}
}

// TestPushedWhileAStorageServiceAnswers pushes another image once the registry has said which
// manifest the tag has, by a redirect to that digest at a storage service, which has not begun to
// answer.
func TestPushedWhileAStorageServiceAnswers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2m"`))
	before := n.Push("app:1", resolvertest.Image(1, 2, 500))
	n.MustPull(nodetest.Named("app:1"))
	storage := resolvertest.New(t)
	for _, seed := range []int64{1, 2} {
		n.PushTo(storage, "app:1", resolvertest.Image(seed, 2, 500))
	}
	p := newPushedMeanwhile(t)
	begun := sync.OnceFunc(func() { close(p.begun) })
	storage.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if path.Base(r.URL.Path) == before.String() {
			begun()
			<-p.goOn
		}
		next.ServeHTTP(w, r)
	})
	var current atomic.Value // which digest the tag has
	current.Store(before.String())
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/v2/app/manifests/1" {
			p.asked.Add(1)
			http.Redirect(w, r, storage.URL()+"/v2/app/manifests/"+current.Load().(string), http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	p.want(t, n, func() digest.Digest {
		after := n.Push("app:1", resolvertest.Image(2, 2, 500))
		current.Store(after.String())
		return after
	})
}
