// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A mirror's document is not the fault of a registry that nobody has asked.
func TestBlameForADocument(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	img := nodetest.Image(1)
	f := forge(n, img)
	raw, err := img.RawManifest()
	n.Must(err)
	var m ocispec.Manifest
	n.Must(json.Unmarshal(raw, &m))
	m.Layers[0].Size = 0
	f.top = f.add(t, m)
	registry, mirror := resolvertest.New(t), resolvertest.New(t)
	registry.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { http.NotFound(w, r) })
	mirror.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
	n.Serve("made.test", registry, mirror)
	_, err = n.Pull("made.test/app:1")
	if err == nil || !strings.Contains(err.Error(), "invalid") || !strings.Contains(err.Error(), "host "+mirror.Host()) {
		t.Errorf("got %v", err)
	}
	nodetest.Want(t, "requests to the registry", len(registry.Requests()), 0)
}
