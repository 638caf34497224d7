// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// claims are registries that claim to have a private image, of which they know the digest.
type claims struct {
	*scene
	top, manifest ocispec.Descriptor
	documents     map[digest.Digest][]byte // the index, and the manifest in it
}

// newClaims is a repository with a private image, or an index of one. Nobody has pulled it.
func newClaims(t *testing.T, index bool) *claims {
	t.Helper()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	c := &claims{scene: g.scene(t, n, "private/app"), documents: map[digest.Digest][]byte{}}
	here := platforms.DefaultSpec()
	what := resolvertest.Index(1, 2, 500, platforms.Format(ocispec.Platform{OS: here.OS, Architecture: here.Architecture}))
	indexed, err := what.IndexManifest()
	n.Must(err)
	img, err := what.Image(indexed.Manifests[0].Digest)
	n.Must(err)
	raw, err := img.RawManifest()
	n.Must(err)
	c.manifest = ocispec.Descriptor{MediaType: string(indexed.Manifests[0].MediaType), Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	c.documents[c.manifest.Digest] = raw
	c.top = c.manifest
	if index {
		raw, err := what.RawManifest()
		n.Must(err)
		c.top = ocispec.Descriptor{MediaType: string(indexed.MediaType), Digest: digest.FromBytes(raw), Size: int64(len(raw))}
		c.documents[c.top.Digest] = raw
		c.PushTo(g.Registry, "private/app:1", what)
	} else {
		c.PushTo(g.Registry, "private/app:1", img)
	}
	return c
}

// claim has a registry answer with the digest of the image that has only some of the documents.
func (c *claims) claim(name string, has ...digest.Digest) *resolvertest.Registry {
	c.T.Helper()
	evil := resolvertest.New(c.T)
	f := &forgery{top: c.top, served: map[digest.Digest][]byte{}}
	for _, d := range has {
		f.served[d] = c.documents[d]
	}
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if _, has := f.served[f.top.Digest]; !has && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/manifests/1") {
			<-r.Context().Done() // so that the check asks by HEAD, which takes no document
			return
		}
		f.serve(w, r)
	})
	c.Serve(name, evil)
	return evil
}

// wantNothingLearnt has a registry claim the image, which gets nothing, and is asked for
// nothing but what those who know the digest and these documents know.
func (c *claims) wantNothingLearnt(what string, known []digest.Digest, has ...digest.Digest) {
	c.T.Helper()
	name := "evil" + strings.ReplaceAll(what, " ", "-") + ".test"
	evil := c.claim(name, has...)
	for _, ref := range []string{name + "/x:1", name + "/x@" + c.top.Digest.String()} {
		for _, policy := range []string{"Always", "IfNotPresent"} {
			if id, err := c.Pull(ref, node.Hint("policy", policy, "verify-timeout", "1s")); err == nil {
				c.T.Errorf("%s: %s by %s gives %s", what, ref, policy, id)
			}
		}
		if _, ok := c.Record(ref); ok {
			c.T.Errorf("%s: there is a record of %s", what, ref)
		}
	}
	for _, r := range evil.Requests() {
		d := digest.Digest(r.Path[strings.LastIndex(r.Path, "/")+1:])
		if d.Validate() == nil && !slices.Contains(known, d) {
			c.T.Errorf("%s: its registry was asked for %s", what, r.Path)
		}
	}
}

// wantNothingLearntAtAll has registries claim the image that have none of its documents, and the
// first of them.
func (c *claims) wantNothingLearntAtAll(when string) {
	c.T.Helper()
	c.wantNothingLearnt(when+" nothing", []digest.Digest{c.top.Digest})
	if c.top.Digest != c.manifest.Digest {
		c.wantNothingLearnt(when+" the index", []digest.Digest{c.top.Digest, c.manifest.Digest}, c.top.Digest)
	}
}

// TestImpostorLearnsNothing holds that a registry which knows the digest of a private image, and
// has not its documents, is asked for nothing that these name: whether the image is on the node,
// is being pulled, or belongs to another of containerd's namespaces.
func TestImpostorLearnsNothing(t *testing.T) {
	t.Parallel()
	for what, index := range map[string]bool{"manifest": false, "index": true} {
		t.Run(what, func(t *testing.T) {
			c := newClaims(t, index)
			c.importElsewhere()
			c.wantNothingLearntAtAll("elsewhere")

			release := c.holdLayers()
			done := make(chan error, 1)
			go func() {
				_, err := c.Node.Node.Pull(t.Context(), c.ref(":1"), alice.secret())
				done <- err
			}()
			c.waitForDocuments()
			c.wantNothingLearntAtAll("pulling")
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			source := c.Labels(c.ref(":1"))["pull-source"]

			c.wantNothingLearntAtAll("there")
			c.wantPull(alice, "Never", c.ref(":1"), "Present")
			c.wantPull(alice, "Always", c.ref(":1"), "Unchanged")
			nodetest.Want(t, "source", c.Labels(c.ref(":1"))["pull-source"], source)
		})
	}
}

// importElsewhere has the documents of the image in another namespace.
func (c *claims) importElsewhere() {
	c.T.Helper()
	ctx := namespaces.WithNamespace(c.T.Context(), "elsewhere")
	for d, data := range c.documents {
		desc := ocispec.Descriptor{Digest: d, Size: int64(len(data))}
		c.Must(content.WriteBlob(ctx, c.Client.ContentStore(), d.String(), strings.NewReader(string(data)), desc))
	}
}

// holdLayers holds the layers of the private image back until they are released.
func (c *claims) holdLayers() (release func()) {
	var manifest ocispec.Manifest
	c.Must(json.Unmarshal(c.documents[c.manifest.Digest], &manifest))
	held := make(chan struct{})
	undo := c.g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && slices.ContainsFunc(manifest.Layers, func(l ocispec.Descriptor) bool {
			return strings.HasSuffix(r.URL.Path, l.Digest.String())
		}) {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
	return func() {
		close(held)
		undo()
	}
}

// waitForDocuments waits until the documents of the private image, down to its config, are on the
// node.
func (c *claims) waitForDocuments() {
	c.T.Helper()
	ctx, contents := c.T.Context(), c.Client.ContentStore()
	nodetest.Eventually(c.T, "the documents are on the node", func() bool {
		config, err := images.Config(ctx, contents, c.top, platforms.Default())
		if err != nil {
			return false
		}
		_, err = contents.Info(ctx, config.Digest)
		return err == nil
	})
}
