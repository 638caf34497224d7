// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

// A document that had come before containerd was killed, and that the next pull commits without
// a request for it, is not said to come from another registry, which has served the same before.
func TestSourceOfDocumentsThatCameBeforeAKill(t *testing.T) {
	img := resolvertest.Image(1, 1, 1000)
	p := partsOf(t, img)
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		document v1.Hash
		taken    func(*http.Request) bool
		data     []byte
	}{
		"manifest": {p.manifest, orTag(of(p.manifest)), manifest},
		"config":   {p.config, of(p.config), config},
	} {
		t.Run(what, func(t *testing.T) {
			n := nodetest.Start(t)
			other, own := resolvertest.New(t), resolvertest.New(t)
			n.Serve("other.test", other)
			n.Serve("own.test", own)
			n.PushTo(other, "app:1", img)
			n.PushTo(own, "app:1", img)
			n.MustPull("other.test/app:1")
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			ref := killInFetch(ctx, n, own, test.document, test.taken)
			n.Start()
			finishIngest(ctx, n, ref, test.data)
			n.MustPull("own.test/app:1")
			labels := n.Labels("own.test/app:1")
			nodetest.Want(t, "pull-source", labels["pull-source"], own.Host()+"/app:1")
			// The layer came from the other one.
			nodetest.Want(t, "content-sources", labels["content-sources"], own.Host()+","+other.Host())
			nodetest.Want(t, "unknown-sources", labels["unknown-sources"], "")
		})
	}
}

// killInFetch kills containerd while a pull waits for a document, which requests that are taken ask
// for. It returns the reference under which that is written.
func killInFetch(ctx context.Context, n *nodetest.Node, r *resolvertest.Registry, document v1.Hash, taken func(*http.Request) bool) (ref string) {
	n.T.Helper()
	undo := r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodGet && taken(req) {
			<-req.Context().Done()
			return
		}
		next.ServeHTTP(w, req)
	})
	defer undo()
	return killOnceWritten(ctx, n, document, 0)
}

// killOnceWritten kills containerd in a pull once so many bytes of content are written. It returns the reference under
// which they are.
func killOnceWritten(ctx context.Context, n *nodetest.Node, of v1.Hash, bytes int64) (ref string) {
	n.T.Helper()
	pulling, cancel := context.WithCancel(ctx)
	defer cancel() // the client would wait for the next daemon
	go func() { _, _ = n.Node.Pull(pulling, "own.test/app:1") }()
	nodetest.Eventually(n.T, "the content is being fetched", func() bool {
		all, err := n.Client.ContentStore().ListStatuses(ctx)
		n.Must(err)
		for _, status := range all {
			if strings.Contains(status.Ref, of.String()) && status.Offset >= bytes {
				ref = status.Ref
			}
		}
		return ref != ""
	})
	n.Kill()
	return ref
}

// finishIngest writes all of a document where a pull has begun to.
func finishIngest(ctx context.Context, n *nodetest.Node, ref string, data []byte) {
	n.T.Helper()
	w, err := n.Client.ContentStore().Writer(ctx, content.WithRef(ref))
	n.Must(err)
	_, err = w.Write(data)
	n.Must(err)
	n.Must(w.Close())
}

// A layer that goes on after containerd was killed is not said to be of the host alone that has served its rest. Under
// allowed_sources it is of the hosts that may be asked, so that nothing of the image is taken once more.
func TestSourceOfALayerThatGoesOnAfterAKill(t *testing.T) {
	for what, allowed := range map[string]bool{"any sources": false, "allowed sources": true} {
		t.Run(what, func(t *testing.T) {
			n, img := nodetest.Start(t), resolvertest.Image(1, 1, 4_000_000)
			registry, mirror := resolvertest.New(t), resolvertest.New(t)
			n.Serve("own.test", registry, mirror)
			n.PushTo(registry, "app:1", img)
			n.PushTo(mirror, "app:1", img)
			if allowed {
				n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"own.test/**\"]\nallowed_sources = [%q, %q]\n", mirror.Host(), registry.Host()))
			}
			ctx, layer := namespaces.WithNamespace(t.Context(), "k8s.io"), partsOf(t, img).layers[0]
			killInLayer(ctx, n, mirror, img)
			mirror.Refuse()
			n.Start()
			n.MustPull("own.test/app:1")
			info, err := n.Client.ContentStore().Info(ctx, digest.Digest(layer.String()))
			n.Must(err)
			sources, unknown := registry.Host()+",+1 more", "true"
			if allowed {
				sources, unknown = mirror.Host()+","+registry.Host(), ""
			}
			nodetest.Want(t, "sources of the layer", info.Labels[store.LabelContentSources], sources)
			nodetest.Want(t, "unknown-sources", n.Labels("own.test/app:1")["unknown-sources"], unknown)
			nodetest.Want(t, "requests for the layer", registry.Count(func(r resolvertest.Request) bool {
				return r.Method == http.MethodGet && strings.HasSuffix(r.Path, layer.String())
			}), 1)
		})
	}
}

// killInLayer kills containerd while a pull waits for the rest of a layer of which half has come.
func killInLayer(ctx context.Context, n *nodetest.Node, r *resolvertest.Registry, img v1.Image) {
	n.T.Helper()
	layers, err := img.Layers()
	n.Must(err)
	layer, err := layers[0].Digest()
	n.Must(err)
	rc, err := layers[0].Compressed()
	n.Must(err)
	data, err := io.ReadAll(rc)
	n.Must(err)
	n.Must(rc.Close())
	half := len(data) / 2
	undo := r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !of(layer)(req) {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data[:half])
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	})
	defer undo()
	killOnceWritten(ctx, n, layer, 1<<20) // containerd writes so many at once
}
