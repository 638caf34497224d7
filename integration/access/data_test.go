// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// peakMB is the most memory that the daemon has had, in MB.
func peakMB(t *testing.T, n *nodetest.Node) int {
	t.Helper()
	server, err := n.Client.IntrospectionService().Server(t.Context())
	n.Must(err)
	status, err := os.ReadFile("/proc/" + strconv.FormatUint(server.GetPid(), 10) + "/status")
	n.Must(err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(peak)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kB / 1024
}

// TestManifestsInTheDataOfAnIndex has a tenant's registry serve an index that has a
// manifest of a million descriptors with it, in the data of its descriptor, for a platform that
// this node can run, and that containerd's filter of the pull does not pass: nobody fetches it.
func TestManifestsInTheDataOfAnIndex(t *testing.T) {
	n := nodetest.New(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	const element = "0"
	inner := `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageManifest + `","layers":[` +
		strings.Repeat(element+",", 3_000_000/len(element+",")) + element + `]}`
	f := &forgery{served: map[digest.Digest][]byte{}}
	f.top = f.add(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{
			MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(inner), Size: int64(len(inner)),
			Data: []byte(inner), Platform: &ocispec.Platform{OS: "linux", Architecture: "386"},
		}},
	})
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
	before := peakMB(t, n)
	n.MustFail("evil.test/x:1", []string{"invalid", evil.Host(), "manifests[0].data ", "not allowed"})
	if after := peakMB(t, n); after > before+100 {
		t.Errorf("the daemon had %d MB, and has had %d MB", before, after)
	}
}
