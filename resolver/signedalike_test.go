// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry redirects two layers to a storage service that signs them alike (one SAS, one
// X-Amz-Credential), by a Location that Go writes in another way. 84c27de follows both.
func TestRedirectsSignedAlike(t *testing.T) {
	for name, location := range map[string]string{
		"as Go does":        "%s/blobs/",
		"a character":       "%s/blobs/team|app/",
		"UTF-8":             "%s/blobs/größe/",
		"relative":          "../../../../blobs/",
		"scheme":            "HTTP",
		"two dots":          "%s/x/../blobs/",
		"an empty fragment": "#",
		"two slashes":       "%s//blobs//x/",
		"escapes":           "%s/blobs/a%2fb%7e%C3%B6:@!$&'()*+,;=[]/",
		"a user":            "@",
	} {
		t.Run(name, func(t *testing.T) {
			storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Query().Get("name")) })
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("name") {
					_, _ = io.WriteString(w, r.URL.Query().Get("name"))
					return
				}
				layer := "layer1"
				if r.URL.Path != "/v2/team/app/blobs/"+digest.FromString("layer1").String() {
					layer = "layer2"
				}
				query := "?name=" + layer + "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261123%2Feu-central-1%2Fs3%2Faws4_request&X-Amz-Signature=00112233445566778899" + layer
				var to string
				switch location {
				case "HTTP":
					to = "HTTP" + storage.URL[len("http"):] + "/blobs/" + query
				case "#":
					to = storage.URL + "/blobs/" + query + "#"
				case "@":
					to = "http://storage:Summer2024xyz@" + storage.URL[len("http://"):] + "/blobs/" + query
				case "../../../../blobs/":
					to = location + query
				default:
					to = storage.URL + location[len("%s"):] + query
				}
				w.Header()["Location"] = []string{to}
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			source := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
			for _, layer := range []string{"layer1", "layer2"} {
				got, err := read(t, source, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(layer), Size: 6})
				if err != nil || got != layer {
					t.Errorf("%s: %q, %v", layer, got, err)
				}
			}
		})
	}
}
