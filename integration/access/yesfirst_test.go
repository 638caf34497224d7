// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// manyFiles is an image that is compared in no time, and takes its time to unpack.
func manyFiles(t *testing.T, seed int64) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 12_000 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("f%d", i), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(nodetest.Image(seed), static.NewLayer(b.Bytes(), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// A private image that was imported is its owner's from the registry's yes on, before it is unpacked for her pod, which
// takes time: whatever becomes of that, nobody else has it any more. That holds where it is compared first, too.
func TestYesComesBeforeTheUnpacking(t *testing.T) {
	t.Parallel()
	for _, compared := range []bool{true, false} {
		for _, how := range []string{"unpacked", "canceled", "killed", "meanwhile"} {
			t.Run(fmt.Sprintf("compared is %v, %s", compared, how), func(t *testing.T) {
				t.Parallel()
				r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "a"}))
				n := nodetest.Prepare(t).With(r)
				n.Serve("registry.test", r)
				if compared {
					n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q]\n", r.Host()))
				}
				n.Start()
				ref, img := nodetest.Named("private/app:1"), manyFiles(t, 71000)
				n.Push("private/app:1", img)
				n.Import(ref, img)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := n.Node.Pull(ctx, ref, node.Credentials("alice", "a"), node.Hint("policy", "IfNotPresent"))
					done <- err
				}()
				nodetest.Eventually(t, "the registry's yes is recorded", func() bool { return n.Labels(ref)["verified-digest"] != "" })
				isCutShort := func() {
					if err := <-done; err == nil {
						t.Error("the pull came to its end before that")
					}
				}
				switch how {
				case "unpacked":
					n.Must(<-done)
				case "canceled":
					cancel()
					isCutShort()
				case "killed":
					n.Kill()
					isCutShort()
					n.Start()
				}
				for _, policy := range []string{"Never", "IfNotPresent"} {
					if _, err := n.Pull(ref, node.Credentials("eve", "e"), node.Hint("policy", policy)); err == nil {
						t.Errorf("eve has it by %s", policy)
					}
				}
				if how == "meanwhile" {
					n.Must(<-done)
				}
			})
		}
	}
}

// The registry's yes is recorded for all tags where the snapshotter of the owner's runtime handler cannot
// unpack the image at all, and where the tag has moved on since the image was imported.
func TestYesWithoutAnUnpacking(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("the tag has moved: %v, fails: %v", moved, fails), func(t *testing.T) {
				t.Parallel()
				r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "a"}))
				n := nodetest.Start(t, nodetest.NativeRuntime()).With(r)
				n.Serve("registry.test", r)
				one, latest := nodetest.Named("private/app:1"), nodetest.Named("private/app:latest")
				img := nodetest.Image(71001)
				n.Push("private/app:1", img)
				n.Import(one, img)
				n.Import(latest, img)
				if moved {
					n.Push("private/app:1", nodetest.Image(71002))
				}
				if fails {
					dir := n.Path("root", "io.containerd.snapshotter.v1.native", "snapshots")
					n.Must(os.RemoveAll(dir))
					n.Must(os.WriteFile(dir, nil, 0o600))
				}
				alice, never := node.Credentials("alice", "a"), node.Hint("policy", "Never")
				n.MustPull(one, alice, node.Hint("policy", "IfNotPresent"), node.RuntimeHandler("native"))
				for _, ref := range []string{one, latest} {
					if _, err := n.Pull(ref, node.Credentials("eve", "e"), never); err == nil {
						t.Errorf("eve has it by %s", ref)
					}
				}
				n.MustPull(one, alice, never)
			})
		}
	}
}

// An image is removed while it is unpacked for its owner, beside a pull that has the turn of its tag: no record comes back
// that says nothing of whose it is.
func TestRemovedWhileItIsUnpacked(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "a", "bob": "b"}))
	t.Cleanup(r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if user, _, _ := req.BasicAuth(); user == "bob" && strings.Contains(req.URL.Path, "/blobs/") {
			<-req.Context().Done()
			return
		}
		next.ServeHTTP(w, req)
	}))
	n := nodetest.Start(t).With(r)
	n.Serve("registry.test", r)
	img, tag := manyFiles(t, 73000), nodetest.Named("private/app:1")
	canonical := nodetest.Named("private/app@" + n.Push("private/app:2", img).String())
	n.Push("private/app:1", nodetest.Image(73001))
	n.Import(tag, img)
	id, err := img.ConfigName()
	n.Must(err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = n.Node.Pull(ctx, tag, node.Credentials("bob", "b"), node.Hint("policy", "Always")) }()
	nodetest.Eventually(t, "bob's pull has the turn", func() bool { return r.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.Node.Pull(ctx, tag, node.Credentials("alice", "a"), node.Hint("policy", "IfNotPresent"))
	}()
	nodetest.Eventually(t, "the registry's yes is recorded", func() bool {
		record, ok := n.Record(canonical)
		return ok && node.Own(record.Labels)["verified-digest"] != ""
	})
	r.Forget()
	n.Remove(id.String())
	nodetest.Eventually(t, "it is unpacked, and her request ends or begins anew", func() bool {
		select {
		case <-done:
			return true
		default:
			return r.Count(resolvertest.Of("HEAD", resolvertest.Manifests))+r.Count(resolvertest.Of("GET", resolvertest.Manifests)) > 0
		}
	})
	if _, err := n.Pull(canonical, node.Credentials("eve", "e"), node.Hint("policy", "Never")); err == nil {
		t.Errorf("eve has it by its digest, whose record says %v", n.Labels(canonical))
	}
}
