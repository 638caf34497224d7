// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// patientTenants are tenants on a node whose pulls wait for those of other repositories for as
// long as containerd lets them by default: longer than wantSoon.
func patientTenants(t *testing.T) tenants {
	t.Helper()
	return tenants{Node: nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))}
}

// attackByURLs has the other tenant pull, by that name at the registry that both use without
// credentials, an image with the config of img and those layers, for which the manifest names a
// server of theirs, which answers with that. It returns once all layers have been asked for there;
// the function that it returns ends the pull.
func (ts tenants) attackByURLs(name string, img v1.Image, layers []v1.Layer, answer http.HandlerFunc) (end func()) {
	ts.T.Helper()
	var (
		mu    sync.Mutex
		asked = map[string]bool{}
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[path.Base(r.URL.Path)] = true
		mu.Unlock()
		answer(w, r)
	}))
	ts.T.Cleanup(server.Close)
	config, err := img.ConfigFile()
	ts.Must(err)
	config = config.DeepCopy()
	config.RootFS.DiffIDs, config.History = nil, nil
	theirs, err := mutate.ConfigFile(empty.Image, config)
	ts.Must(err)
	for _, l := range layers {
		d, err := l.Digest()
		ts.Must(err)
		theirs = nodetest.WithLayerAt(ts.T, theirs, l, server.URL+"/"+d.String())
	}
	ts.Push(name, theirs)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ts.T.Context()))
	var pulling sync.WaitGroup
	pulling.Go(func() { _, _ = ts.Node.Node.Pull(ctx, nodetest.Named(name)) })
	end = sync.OnceFunc(func() {
		cancel()
		pulling.Wait()
	})
	ts.T.Cleanup(end)
	nodetest.Eventually(ts.T, "the layers are asked for by their urls", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) == len(layers)
	})
	return end
}

// TestForeignURLs has an image of the same registry name a server that trickles the layers of an
// image that is to be pulled next, or others that are said to unpack to the same: its pull waits
// for neither.
func TestForeignURLs(t *testing.T) {
	t.Parallel()
	for name, compressedAnew := range map[string]bool{"the same layers": false, "layers that unpack to the same": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := patientTenants(t)
			img := bigImage(2)
			layers, err := img.Layers()
			ts.Must(err)
			for i, l := range layers {
				if compressedAnew {
					layers[i], err = tarball.LayerFromOpener(l.Uncompressed, tarball.WithCompressionLevel(0))
					ts.Must(err)
				}
			}
			ts.attackByURLs("theirs:1", img, layers, trickle)
			ts.wantSoon("app:1", img)
		})
	}
}

// TestForeignGarbageByURLs has such a server send other bytes for a layer, during or before the
// pull of the image that has this layer, which does not build upon them.
func TestForeignGarbageByURLs(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"and stay": false, "and leave": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := patientTenants(t)
			img := bigImage(1)
			layers, err := img.Layers()
			ts.Must(err)
			leave := ts.attackByURLs("theirs:1", img, layers, getStuck)
			nodetest.Eventually(t, "garbage is written", func() bool { _, bytes := unfinished(ts.Node); return bytes >= 1<<20 })
			if leaves {
				leave()
			}
			mark := ts.Mark()
			ts.wantSoon("app:1", img)
			nodetest.Want(t, "lines of content that is thrown away", len(ts.LogLines(mark, "thrown away")), 0)
		})
	}
}

// TestURLsOfTheSameRepository has another tag of the repository name such a server: the pull of the
// image waits for what it sends, and has the layer from the registry once that has ended.
func TestURLsOfTheSameRepository(t *testing.T) {
	t.Parallel()
	ts := patientTenants(t)
	img := bigImage(1)
	layers, err := img.Layers()
	ts.Must(err)
	end := ts.attackByURLs("app:other", img, layers, trickle)
	ts.Push("app:1", img)
	pulled := make(chan error, 1)
	go func() {
		_, err := ts.Node.Node.Pull(t.Context(), nodetest.Named("app:1"))
		pulled <- err
	}()
	select {
	case err := <-pulled:
		t.Fatalf("the pull did not wait: %v", err)
	case <-time.After(3 * time.Second):
	}
	end()
	select {
	case err := <-pulled:
		ts.Must(err)
	case <-time.After(soon):
		t.Fatal("the pull waits still")
	}
	ts.WantRunnable(nodetest.Named("app:1"))
}
