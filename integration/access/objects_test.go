// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestManifestsOfManyObjects has a tenant's registry serve a manifest, and an index, of
// 4 MB with a million descriptors, or of what stands in their place: containerd counts
// them when it has read them all, a few times, which takes a GB of memory and half a minute.
func TestManifestsOfManyObjects(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	for name, element := range map[string]string{"objects": "{}", "nothing": "null", "numbers": "0"} {
		all := strings.Repeat(element+",", 4_000_000/len(element+",")) + element
		for mediaType, key := range map[string]string{ocispec.MediaTypeImageManifest: "layers", ocispec.MediaTypeImageIndex: "manifests"} {
			document := `{"schemaVersion":2,"mediaType":"` + mediaType + `","` + key + `":[` + all + `]}`
			top := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(document), Size: int64(len(document))}
			f := &forgery{top: top, served: map[digest.Digest][]byte{top.Digest: []byte(document)}}
			restore := evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
			n.MustFail("evil.test/"+name+"-"+key+":1", []string{"more than", "objects", "not allowed"})
			restore()
		}
	}
}
