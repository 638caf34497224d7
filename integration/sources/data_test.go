// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAllowedSourcesOfDataInAnIndex has the registry that a rule allows serve an index
// whose only manifest is for a platform that this node can run (linux/386), and that the pull
// does not fetch: descriptors have the manifest, and the config in it, with them, as their data.
// The config names the layers of an image from elsewhere. No such image may be pulled and run.
func TestAllowedSourcesOfDataInAnIndex(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t))
	allowed, forbidden, pause := resolvertest.New(t), resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", allowed)
	n.Serve("bad.test", forbidden)
	elsewhere := nodetest.Busybox(t, 7, "sleep", "86400")
	n.PushTo(forbidden, "app:1", elsewhere)
	n.MustPull("bad.test/app:1")
	pod := n.RunPod(pause)

	config, err := elsewhere.ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	config.Author = "a tenant"
	served := map[digest.Digest][]byte{}
	types := map[digest.Digest]string{}
	add := func(mediaType string, v any) ocispec.Descriptor {
		data, err := json.Marshal(v)
		n.Must(err)
		d := digest.FromBytes(data)
		served[d], types[d] = data, mediaType
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data)), Data: data}
	}
	versioned := specs.Versioned{SchemaVersion: 2}
	manifest := add(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: versioned, MediaType: ocispec.MediaTypeImageManifest,
		Config: add(ocispec.MediaTypeImageConfig, config), Layers: []ocispec.Descriptor{},
	})
	manifest.Platform = &ocispec.Platform{OS: "linux", Architecture: "386"}
	top := add(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: versioned, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest},
	})
	allowed.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		d := digest.Digest(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		if d.Validate() != nil {
			d = top.Digest
		}
		if served[d] == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Docker-Content-Digest", d.String())
		w.Header().Set("Content-Type", types[d])
		w.Header().Set("Content-Length", fmt.Sprint(len(served[d])))
		_, _ = w.Write(served[d])
	})

	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [%q, %q]\n", allowed.Host(), pause.Host()))
	const ref = "good.test/tenant:1"
	for _, policy := range []string{"Always", "IfNotPresent"} {
		id, err := n.Pull(ref, node.Hint("policy", policy))
		if err == nil {
			t.Errorf("%s: an image of layers from elsewhere is pulled, with labels %v", policy, n.Labels(ref))
			container := pod.Run("app-"+strings.ToLower(policy), id, ref, nil)
			t.Errorf("a container runs it: %v", n.ContainerStatus(container).GetState())
		} else if !strings.Contains(err.Error(), "no match for platform") {
			t.Errorf("%s: %v", policy, err)
		}
	}
}
