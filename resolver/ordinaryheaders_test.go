// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Values of headers in hosts.toml that are no secrets are no reason to refuse an honest image. What lets the node in is one.
func TestConfigsBesideOrdinaryHeaders(t *testing.T) {
	for _, tc := range []struct {
		header, value, config string
		refused               bool
	}{
		{"X-Forwarded-Host", "harbor.example.com", `{"Labels":{"harbor.example.com/team":"a"}}`, false},
		{"X-Node", "k8s-node1", `{"Volumes":{"/data/k8s-node1":{}}}`, false},
		{"X-Region", "eu-central-1", `{"Env":["A=b"],"WorkingDir":"/srv/eu-central-1"}`, false},
		{"X-Platform", "com.example.platform", `{"Labels":{"com.example.platform.owner":"a"}}`, false},
		{"Authorization", "Bearer correct-horse-battery", `{"User":"correct-horse-battery"}`, true},
		{"Cookie", "correct-horse-battery", `{"User":"correct-horse-battery"}`, true},
	} {
		body := `{"architecture":"amd64","os":"linux","config":` + tc.config + `}`
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		toml := fmt.Sprintf("server = %q\n[host.%[1]q]\n[host.%[1]q.header]\n%s = [%q]\n", server.URL, tc.header, tc.value)
		s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{})
		src := s.Source(manifestDesc)
		f, err := src.Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := f.Fetch(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString(body), Size: int64(len(body))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(rc); (err != nil) != tc.refused {
			t.Errorf("%s: %s: %v", tc.header, tc.value, err)
		}
		_ = rc.Close()
	}
}
