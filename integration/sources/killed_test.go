// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
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
	pulling, cancel := context.WithCancel(ctx)
	defer cancel() // the client would wait for the next daemon
	go func() { _, _ = n.Node.Pull(pulling, "own.test/app:1") }()
	nodetest.Eventually(n.T, "the document is being fetched", func() bool {
		all, err := n.Client.ContentStore().ListStatuses(ctx)
		n.Must(err)
		for _, status := range all {
			if strings.Contains(status.Ref, document.String()) {
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
