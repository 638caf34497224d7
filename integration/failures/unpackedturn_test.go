// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// twoUnpacks has a pull unpack two layers at a time.
var twoUnpacks = nodetest.Tables("[plugins.'io.containerd.transfer.v1.local']\n  max_concurrent_unpacks = 2\n")

// onto makes an image of the first layer of another and of these above it, which are said to unpack to that.
func (ts tenants) onto(img v1.Image, diffIDs []v1.Hash, above ...[]byte) v1.Image {
	ts.T.Helper()
	config, err := img.ConfigFile()
	ts.Must(err)
	all, err := img.Layers()
	ts.Must(err)
	layers := all[:1:1]
	for _, layer := range above {
		layers = append(layers, static.NewLayer(layer, types.DockerLayer))
	}
	return ts.image(append(config.RootFS.DiffIDs[:1:1], diffIDs...), layers...)
}

// Mallory's image, in the same repository, has the first layer of app:1, and others above it, which take long to unpack. containerd
// unpacks them at the same time, and commits the first, which it has long unpacked, when it has begun with all.
func TestForeignUnpackAboveALayerThatIsUnpacked(t *testing.T) {
	ts := newTenants(t, twoUnpacks)
	img := nodetest.Image(1)
	ts.Push("app:1", img)
	evil := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	ts.Push("app:evil", ts.onto(img, []v1.Hash{evil, evil, evil}, ts.slow("one"), ts.slow("two"), ts.slow("three")))
	alice := node.Credentials("alice", "a")
	ts.begin(func(ctx context.Context) {
		_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("app:evil"), alice, node.Pod("mallory", "evil"))
	})
	nodetest.Eventually(t, "her layers are being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") > 0 })
	time.Sleep(time.Second) // so is the first, which is small
	ts.pullWithin(inLineLimit, "app:1", alice, node.Pod("alice", "app"))
}

// A layer that was unpacked twice is committed once: the pull from which it was taken over goes on by that.
func TestLayerThatIsUnpackedTwice(t *testing.T) {
	ts := newTenants(t, twoUnpacks)
	img := nodetest.Image(1)
	ts.Push("app:1", img)
	slow := ts.slow("one")
	slow = slow[:len(slow)/1500] // for seconds
	z, err := gzip.NewReader(bytes.NewReader(slow))
	ts.Must(err)
	diffID, _, err := v1.SHA256(z)
	ts.Must(err)
	ts.Push("app:slow", ts.onto(img, []v1.Hash{diffID, diffID, diffID}, slow, slow, slow))
	ended := make(chan error, 1)
	go func() {
		_, err := ts.Node.Node.Pull(t.Context(), nodetest.Named("app:slow"))
		ended <- err
	}()
	nodetest.Eventually(t, "it is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") > 0 })
	ts.pullWithin(inLineLimit, "app:1")
	ts.Must(<-ended)
}

// Mallory's image at a registry of her own has all places in which pulls unpack. Another one in the repository app has the first layer of app:1,
// and a slow one above it, which comes first since it is smaller, and has that pull's own place: the first layer is there, and waits for one.
func TestForeignUnpackOfALayerThatWaitsForAPlace(t *testing.T) {
	ts := newTenants(t, twoUnpacks)
	img := nodetest.Image(1)
	ts.Push("app:1", img)
	var hog []v1.Layer
	var ids []v1.Hash
	for i := range 2 {
		hog = append(hog, static.NewLayer(bytes.Repeat(ts.slow(fmt.Sprint("hog", i)), 6), types.DockerLayer))
		ids = append(ids, v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", i)})
	}
	ts.PushTo(ts.foreign, "app:1", ts.image(ids, hog...))
	ts.Push("app:evil", ts.onto(img, ids[:1], bytes.Repeat(ts.slow("one"), 6)))
	all, err := img.Layers()
	ts.Must(err)
	base, err := all[0].Digest()
	ts.Must(err)
	comes := make(chan struct{}) // the base is larger than the slow one
	ts.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if path.Base(r.URL.Path) == base.String() && r.Method == http.MethodGet {
			select {
			case <-comes:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
	alice := node.Credentials("alice", "a")
	ts.begin(ts.byKubelet)
	nodetest.Eventually(t, "the hog is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == 2 })
	ts.begin(func(ctx context.Context) {
		_, _ = ts.Node.Node.Pull(ctx, nodetest.Named("app:evil"), alice, node.Pod("mallory", "evil"))
	})
	nodetest.Eventually(t, "her layer is being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == 3 })
	close(comes)
	ts.pullWithin(inLineLimit, "app:1", alice, node.Pod("alice", "app"))
}
