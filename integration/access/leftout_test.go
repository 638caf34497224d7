// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The layers of an image name as many hosts as they like, under a rule that leaves them out.
func TestManyHostsLeftOut(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nallowed_sources = [\""+evil.Host()+"\"]\n")
	f := &forgery{served: map[digest.Digest][]byte{}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers"}}
	for i := range 40 {
		data := fmt.Appendf(nil, "layer %d", i)
		d := digest.FromBytes(data)
		f.served[d] = data
		desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: d, Size: int64(len(data))}
		for j := range 16 {
			desc.URLs = append(desc.URLs, fmt.Sprintf("http://%d.%d.%s/", i, j, strings.Repeat("x", 200)))
		}
		m.Layers = append(m.Layers, desc)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, d)
	}
	m.Config = f.add(t, config)
	m.Config.MediaType = ocispec.MediaTypeImageConfig
	f.top = f.add(t, m)
	first, last := m.Layers[0].Digest.String(), m.Layers[39].Digest.String()
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		switch {
		case strings.HasSuffix(r.URL.Path, first): // is unpacked first, so that all others are asked for
			<-r.Context().Done()
			return
		case strings.HasSuffix(r.URL.Path, last):
			w.WriteHeader(http.StatusNotFound)
			return
		}
		f.serve(w, r)
	})
	mark := n.Mark()
	_, err := n.Pull("evil.test/app:1")
	if err == nil || !strings.Contains(err.Error(), ".xxx") || !strings.Contains(err.Error(), ", others") {
		t.Fatalf("got %.500v", err)
	}
	if len(err.Error()) > 8<<10 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	for _, line := range n.LogLines(mark, "") {
		if len(line) > 16<<10 {
			t.Errorf("a line of %d bytes in the log: %.100s", len(line), line)
		}
	}
}
