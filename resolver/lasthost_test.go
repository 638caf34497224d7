// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// A part of a source that has one host, as in a check that reads the manifest, has that as its last, whoever stands behind
// it in hosts.toml: what may pass by itself is tried again.
func TestPartWithOneHostIsTheLast(t *testing.T) {
	for name, toml := range map[string]string{ // with the URLs of the host that answers, and of the one behind it
		"nobody behind it":              "server = %[1]q\n",
		"a registry that may only pull": "server = %[2]q\ncapabilities = [\"pull\"]\n[host.%[1]q]\n",
		"a mirror that may only pull":   "server = \"http://origin.test\"\n[host.%[1]q]\n[host.%[2]q]\ncapabilities = [\"pull\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			host, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && asked.Add(1) == 1 {
					answerStatus(http.StatusServiceUnavailable)(w, r)
					return
				}
				serveManifest(w, r)
			})
			behind, _ := serve(t, serveManifest)
			options := Options{HostDirs: []string{hostsDir(t, fmt.Sprintf(toml+"# %[1]q %[2]q\n", host.URL, behind.URL))}}
			s := open(t, options, Query{Known: manifestDigest, Allow: func(host string) bool { return host != "origin.test" }})
			found, err := s.Resolve(t.Context(), plenty)
			if err != nil || found.Host != serverHost(host) {
				t.Fatal(found, err)
			}
			desc := manifestDesc
			src := s.Source(desc).Answering(found.Host)
			if _, err = read(t, src, desc); err != nil {
				t.Errorf("it is not tried again: %v; it was asked %q", src.Failure(err), log.list())
			}
		})
	}
}
