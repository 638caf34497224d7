// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// rewritten is an image with other bytes of its manifest.
type rewritten struct {
	v1.Image
	raw []byte
}

func (r rewritten) RawManifest() ([]byte, error) { return r.raw, nil }
func (r rewritten) Size() (int64, error)         { return int64(len(r.raw)), nil }
func (r rewritten) Digest() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(r.raw))
	return h, err
}

// TestLayersThatARegistryReadsOtherwise has a tenant who knows the layers of a private image name them as "Layers", behind "layers" that
// the repository has. Go reads both as one field, the last one; a registry that is not written in Go may look for those of "layers" alone
// when the manifest is pushed. So it is where the image is on the node already, by a pod that is observed.
func TestLayersThatARegistryReadsOtherwise(t *testing.T) {
	t.Parallel()
	for discard, observed := range map[string]bool{"false": true, "true": false} {
		t.Run("discard_unpacked_layers="+discard, func(t *testing.T) {
			t.Parallel()
			n, g, private, config := privateUnderAList(t, discard)
			img := withOtherLayers(n, config)
			raw, err := img.RawManifest()
			n.Must(err)
			m, err := private.Manifest()
			n.Must(err)
			layers, err := json.Marshal(m.Layers)
			n.Must(err)
			raw = append(bytes.TrimSuffix(bytes.TrimSpace(raw), []byte("}")), fmt.Appendf(nil, `,"Layers":%s}`, layers)...)
			evil := g.scene(t, n, "public/eve")
			evil.push("blobs", private) // for the registry of this test, which is written in Go, to take the manifest
			evil.push("1", rewritten{img, raw})
			g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				for _, l := range m.Layers { // it does not have them, really
					if strings.HasSuffix(r.URL.Path, "public/eve/blobs/"+l.Digest.String()) {
						w.WriteHeader(http.StatusNotFound)
						return
					}
				}
				next.ServeHTTP(w, r)
			})
			if observed {
				n.WriteRules("05.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"observed\"]\nmode = \"Observe\"\n")
				_, err = n.Pull(evil.ref(":1"), eve.secret(), node.Pod("observed", "trial"))
				n.Must(err)
			}
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if id, err := n.Pull(evil.ref(":1"), eve.secret(), node.Hint("policy", policy)); err == nil {
					t.Errorf("%s: eve has the private layers, which her repository does not have: %s, %v", policy, id, n.Labels(evil.ref(":1")))
				}
			}
		})
	}
}
