// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMemoryAfterLargeIndexes has a tenant's registry serve an image of indexes in one
// another, with annotations of megabytes each. Once the image is removed nothing of them
// stays in memory.
func TestMemoryAfterLargeIndexes(t *testing.T) {
	const depth, annotation, bound = 8, 4 << 20, 8 << 20
	debug := nodetest.FreeAddress(t)
	tables := nodetest.Tables(fmt.Sprintf("[plugins.'io.containerd.server.v1.debug']\n  address = %q\n", debug))
	n := nodetest.Start(t, tables)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	f := &forgery{served: map[digest.Digest][]byte{}}
	defer evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })()
	pull := func(seed int64, depth int) {
		f.top = f.put(t, seed)
		for i := range depth {
			f.top.Annotations = map[string]string{"a": strings.Repeat(fmt.Sprintf("%08d", i), annotation/8)}
			f.top = f.add(t, ocispec.Index{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{f.top},
			})
		}
		ref := fmt.Sprintf("evil.test/x:%d", seed)
		n.MustPull(ref)
		n.MustPull(ref) // looks at what is there
		n.Remove(ref)
	}
	pull(1, 1)
	before := heapOf(t, debug)
	pull(2, depth)
	if grown := heapOf(t, debug) - before; grown > bound {
		t.Errorf("the daemon keeps %d MiB of an image that is removed", grown>>20)
	}
}

// put serves an image.
func (f *forgery) put(t *testing.T, seed int64) ocispec.Descriptor {
	t.Helper()
	img := nodetest.Image(seed)
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	f.served[digest.FromBytes(config)] = config
	for _, l := range layers {
		r, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f.served[digest.FromBytes(b)] = b
	}
	mediaType, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: string(mediaType), Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}
	f.served[desc.Digest] = manifest
	return desc
}

// heapOf returns what a daemon has in memory after a garbage collection, in bytes.
func heapOf(t *testing.T, debug string) int64 {
	t.Helper()
	get := func(path string) io.ReadCloser {
		resp, err := http.Get("http://" + debug + path) //nolint:noctx // of a test's own daemon
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body
	}
	for range 2 {
		body := get("/debug/pprof/heap?gc=1")
		_, _ = io.Copy(io.Discard, body)
		_ = body.Close()
	}
	body := get("/debug/vars")
	defer body.Close()
	var vars struct {
		Memstats struct{ HeapAlloc int64 } `json:"memstats"`
	}
	if err := json.NewDecoder(body).Decode(&vars); err != nil {
		t.Fatal(err)
	}
	return vars.Memstats.HeapAlloc
}
