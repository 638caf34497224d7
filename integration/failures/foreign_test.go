// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// tenants are a node on which one tenant pulls from registry.test, and another,
// who knows what the first will pull, from a registry of their own.
type tenants struct {
	*nodetest.Node
	foreign *resolvertest.Registry
}

// foreignRef is the image of the other tenant.
const foreignRef = "foreign.test/app:1"

// soon is far less than the limit of a pull, which is what could end another's download.
const soon = node.PullLimit / 2

func newTenants(t *testing.T, opts ...nodetest.Option) tenants {
	t.Helper()
	opts = append(opts, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(`image_pull_progress_timeout = "20s"`))
	n := nodetest.New(t, opts...)
	ts := tenants{n, resolvertest.New(t)}
	n.Serve("foreign.test", ts.foreign)
	return ts
}

// attack has the other tenant pull an image whose layers their registry answers
// with that, and returns once all of them have been asked for. The function that
// it returns ends the pull.
func (ts tenants) attack(img v1.Image, answer http.HandlerFunc, pull func(context.Context)) (end func()) {
	ts.T.Helper()
	ts.PushTo(ts.foreign, "app:1", img)
	all, err := img.Layers()
	ts.Must(err)
	var (
		mu     sync.Mutex
		asked  = map[string]bool{}
		layers = map[string]bool{}
	)
	for _, l := range all {
		d, err := l.Digest()
		ts.Must(err)
		layers[d.String()] = true
	}
	undo := ts.foreign.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		d := path.Base(r.URL.Path)
		if !layers[d] || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		asked[d] = true
		mu.Unlock()
		answer(w, r)
	})
	stop := ts.begin(pull)
	end = sync.OnceFunc(func() {
		stop()
		undo()
	})
	ts.T.Cleanup(end)
	nodetest.Eventually(ts.T, "the other's layers are asked for", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) == len(layers)
	})
	return end
}

// begin has the other tenant pull. The function that it returns ends the pull.
func (ts tenants) begin(pull func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ts.T.Context()))
	var pulling sync.WaitGroup
	pulling.Go(func() { pull(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		pulling.Wait()
	})
	ts.T.Cleanup(end)
	return end
}

// byKubelet pulls as all tenants do, byCtr past CRI.
func (ts tenants) byKubelet(ctx context.Context) { _, _ = ts.Node.Node.Pull(ctx, foreignRef) }
func (ts tenants) byCtr(ctx context.Context)     { _ = ts.Node.Node.Transfer(ctx, foreignRef) }

// trickle sends a byte now and then.
func trickle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "3000000")
	for {
		if _, err := w.Write([]byte{0}); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// wantSoon pulls an image, which must not wait for the other tenant.
func (ts tenants) wantSoon(ref string, img v1.Image) {
	ts.T.Helper()
	dgst := ts.Push(ref, img)
	ts.wantOutcomeSoon(ref, "Pulled")
	nodetest.Want(ts.T, "target", ts.Target(nodetest.Named(ref)), dgst)
}

// wantOutcomeSoon requests an image, which must not wait for the other tenant.
func (ts tenants) wantOutcomeSoon(ref, outcome string, opts ...node.PullOption) {
	ts.T.Helper()
	mark := ts.Mark()
	ts.pullWithin(soon, ref, opts...)
	nodetest.Want(ts.T, "outcome", ts.Decision(mark, nodetest.Named(ref)).Outcome, outcome)
}

// pullWithin requests an image, which must not wait for another's pull.
func (ts tenants) pullWithin(limit time.Duration, ref string, opts ...node.PullOption) {
	ts.T.Helper()
	began := time.Now()
	ts.MustPull(nodetest.Named(ref), opts...)
	if took := time.Since(began); took > limit {
		ts.T.Errorf("the pull of %s waited for another's: it took %v", ref, took)
	}
}

// TestForeignDownload has another registry trickle the layers of an image that is
// to be pulled next: its pull does not wait for them.
func TestForeignDownload(t *testing.T) {
	t.Parallel()
	for name, pull := range map[string]func(tenants) func(context.Context){
		"by a kubelet": func(ts tenants) func(context.Context) { return ts.byKubelet },
		"by ctr":       func(ts tenants) func(context.Context) { return ts.byCtr },
	} {
		for _, cached := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", with a cached image"}[cached], func(t *testing.T) {
				t.Parallel()
				ts := newTenants(t)
				if cached {
					ts.Push("app:1", nodetest.Image(1))
					ts.MustPull(nodetest.Named("app:1"))
				}
				img := nodetest.Image(2)
				ts.attack(img, trickle, pull(ts))
				ts.wantSoon("app:1", img)
			})
		}
	}
}

// TestForeignSlots has another registry trickle as many layers as may be
// downloaded at once: other images do not wait for them.
func TestForeignSlots(t *testing.T) {
	t.Parallel()
	ts := newTenants(t)
	ts.attack(resolvertest.Image(1, 3, 500), trickle, ts.byKubelet)
	ts.wantSoon("app:1", nodetest.Image(2))
}

// TestForeignUnpack has another registry trickle a layer that, once unpacked,
// would be that of an image that is to be pulled next: its unpacking does not
// wait.
func TestForeignUnpack(t *testing.T) {
	t.Parallel()
	ts := newTenants(t)
	img := nodetest.Image(1)
	config, err := img.ConfigFile()
	ts.Must(err)
	layers, err := img.Layers()
	ts.Must(err)
	var again []v1.Layer
	for _, l := range layers {
		l, err := tarball.LayerFromOpener(l.Uncompressed, tarball.WithCompressionLevel(0))
		ts.Must(err)
		again = append(again, l)
	}
	config = config.DeepCopy()
	config.RootFS.DiffIDs, config.History = nil, nil
	other, err := mutate.ConfigFile(empty.Image, config)
	ts.Must(err)
	other, err = mutate.AppendLayers(other, again...)
	ts.Must(err)
	ts.attack(other, trickle, ts.byKubelet)
	ts.wantSoon("app:1", img)
}
