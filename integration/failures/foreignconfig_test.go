// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// forged is what a registry has in one repository beside what was pushed.
type forged map[digest.Digest][]byte

// add adds content.
func (f forged) add(mediaType string, data []byte) ocispec.Descriptor {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	f[d.Digest] = data
	return d
}

// serve has the registry serve it in that repository, and that manifest as its tag evil.
func (f forged) serve(ts tenants, repo string, top ocispec.Descriptor) {
	ts.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		d := digest.Digest(path.Base(r.URL.Path))
		if d == "evil" {
			d = top.Digest
		}
		data, ok := f[d]
		if !ok || !strings.Contains(r.URL.Path, "/"+repo+"/") {
			next.ServeHTTP(w, r)
			return
		}
		if d == top.Digest {
			w.Header().Set("Content-Type", top.MediaType)
			w.Header().Set("Docker-Content-Digest", d.String())
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(data)
		}
	})
}

// configAmongTheLayers makes a manifest of which one layer, which takes minutes to unpack, is said to be the first of another image
// by a config that it calls a layer. What has the place of its config has as many layers as it calls so, of which the first is that
// of the other image.
func (f forged) configAmongTheLayers(ts tenants, img v1.Image) ocispec.Descriptor {
	ts.T.Helper()
	config, err := img.ConfigFile()
	ts.Must(err)
	layer, err := firstLayer(ts.T, img).Compressed()
	ts.Must(err)
	defer layer.Close()
	first, err := io.ReadAll(layer)
	ts.Must(err)
	marshal := func(v any) []byte {
		data, err := json.Marshal(v)
		ts.Must(err)
		return data
	}
	configOf := func(layers int) []byte {
		c := config.DeepCopy()
		c.RootFS.DiffIDs, c.History = nil, nil
		for range layers {
			c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, config.RootFS.DiffIDs[0])
		}
		return marshal(c)
	}
	layers := []ocispec.Descriptor{
		f.add("application/x-test", first), // her pull would end where her repository has it not
		f.add(ocispec.MediaTypeImageLayerGzip, ts.slow("one")),
		f.add(ocispec.MediaTypeImageConfig, append(configOf(1), bytes.Repeat([]byte(" "), 3_000_000)...)), // large, so that it comes last
	}
	return f.add(ocispec.MediaTypeImageManifest, marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: f.add("application/x-test", configOf(len(layers))), Layers: layers,
	}))
}

// Mallory's image unpacks its layer by a config among its layers. Its own config says something else, and nothing of that is unpacked.
func TestForeignUnpackByAConfigAmongTheLayers(t *testing.T) {
	t.Parallel()
	for _, repo := range []string{"mallory/evil", "app"} {
		t.Run(repo, func(t *testing.T) {
			t.Parallel()
			ts := newTenants(t)
			img := nodetest.Image(1)
			ts.Push("app:1", img)
			f := forged{}
			f.serve(ts, repo, f.configAmongTheLayers(ts, img))
			alice := node.Credentials("alice", "a")
			ts.begin(func(ctx context.Context) {
				_, _ = ts.Node.Node.Pull(ctx, nodetest.Named(repo+":evil"), alice, node.Pod("mallory", "evil"))
			})
			nodetest.Eventually(t, "her layer is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == 1 })
			ts.pullWithin(inLineLimit, "app:1", alice, node.Pod("alice", "app"))
		})
	}
}
