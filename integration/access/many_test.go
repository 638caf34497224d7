// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestOneManifestManyTimes has an index name one large manifest often. It is read and listed once:
// each time takes a quarter of a second of the node's.
func TestOneManifestManyTimes(t *testing.T) {
	n := nodetest.New(t)
	took := func(name string, times int) time.Duration {
		img := nodetest.Image(1)
		f := forge(n, img)
		m := manifestOf(n, img)
		m.Versioned = specs.Versioned{SchemaVersion: 2}
		m.MediaType = ocispec.MediaTypeImageManifest
		m.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20), "of": name}
		here := platforms.DefaultSpec()
		manifest := f.add(t, m)
		manifest.Platform = &here
		f.top = f.add(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: slices.Repeat([]ocispec.Descriptor{manifest}, times),
		})
		n.Serve(name, f.registry(t))
		start := time.Now()
		n.MustPull(name + "/x:1")
		return time.Since(start)
	}
	once := took("once.test", 1)
	often := took("often.test", 300)
	if often > 3*once+10*time.Second {
		t.Errorf("300 names of a manifest take %v, one takes %v", often, once)
	}
}

// TestManyLayers has a tenant's registry name as many layers as an image may have, and send none. The
// node begins with no more of them than it may download, and a few, while others pull.
func TestManyLayers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "60s"`))
	const others = 5
	for i := range others {
		n.Push(fmt.Sprintf("good%d:1", i), nodetest.Image(int64(100+i)))
	}
	n.MustPull(nodetest.Named("good0:1"))
	filesBefore, peakBefore := openFiles(t, n), peakMB(t, n)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	f, asked := withManyLayers(t, 9_990), make(chan struct{}, 10_000)
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if _, ok := f.served[digest.Digest(path.Base(r.URL.Path))]; !ok && strings.Contains(r.URL.Path, "/blobs/") {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		f.serve(w, r)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.Pull("evil.test/x:1")
	}()
	for range 3 { // as many as it may download
		select {
		case <-asked:
		case <-done:
			t.Fatal("the pull of many layers is refused")
		}
	}
	for i := range others {
		n.MustPull(nodetest.Named(fmt.Sprintf("good%d:1", i)))
		all, err := n.Client.ContentStore().ListStatuses(t.Context())
		n.Must(err)
		if len(all) > 30 {
			t.Errorf("%d downloads are begun", len(all))
		}
		if files := openFiles(t, n); files > filesBefore+60 {
			t.Errorf("the daemon had %d open files, and has %d", filesBefore, files)
		}
		select {
		case <-done:
			t.Fatal("the pull of many layers has ended")
		default:
		}
	}
	if peak := peakMB(t, n); peak > peakBefore+1500 { // a daemon with the race detector, too
		t.Errorf("the daemon had %d MB, and has had %d MB", peakBefore, peak)
	}
}

// withManyLayers returns an image of so many large layers that nobody has.
func withManyLayers(t *testing.T, layers int) *forgery {
	t.Helper()
	f := &forgery{served: map[digest.Digest][]byte{}}
	config := ocispec.Image{Platform: platforms.DefaultSpec()}
	config.RootFS.Type = "layers"
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for i := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromString(fmt.Sprint("diff ", i)))
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(fmt.Sprint("layer ", i)), Size: 100 << 20,
		})
	}
	m.Config = f.add(t, config)
	m.Config.MediaType = ocispec.MediaTypeImageConfig
	f.top = f.add(t, m)
	return f
}

// openFiles counts the descriptors of the daemon.
func openFiles(t *testing.T, n *nodetest.Node) int {
	t.Helper()
	server, err := n.Client.IntrospectionService().Server(t.Context())
	n.Must(err)
	all, err := os.ReadDir("/proc/" + strconv.FormatUint(server.GetPid(), 10) + "/fd")
	n.Must(err)
	return len(all)
}
