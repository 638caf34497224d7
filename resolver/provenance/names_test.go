// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"net/url"
	"strings"
	"testing"
)

// A host counts that containerd asks by the name that labels have.
func TestNames(t *testing.T) {
	for address, want := range map[string]bool{
		"https://mirror.test:5000/layer":                              true,
		"https://[::1]:5000/layer":                                    true,
		"https://m%C3%BCnchen.test/layer":                             true,
		"https://" + strings.Repeat("a", 300) + "/layer":              true,
		"https://" + strings.Repeat("a", 301) + "/layer":              false,
		"http://mirror.test/layer":                                    true,
		"http://mirror.test:8443/layer":                               true,
		"http://mirror.test:443/layer":                                false,
		"http://mirror.test:0443/layer":                               false,
		"http://[::1]:443/layer":                                      false,
		"http://index.docker.io/layer":                                true,
		"https://index.docker.io/layer":                               true,
		"http://" + strings.Repeat("a", 297) + "/layer":               true,
		"http://" + strings.Repeat("a", 298) + "/layer":               false,
		"https://m%25C3%25BCnchen.test/layer":                         false,
		"https://[fe80::1%25eth0]/layer":                              false,
		"https://[::ffff:192.0.2.1%2525" + "a.example.com]:443/layer": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := Names(u); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// A host of plain HTTP has its port: without one it is that of HTTPS.
func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://mirror.test/layer":             "mirror.test",
		"https://mirror.test:/layer":            "mirror.test:",
		"https://mirror.test:80/layer":          "mirror.test:80",
		"http://mirror.test/layer":              "mirror.test:80",
		"HTTP://mirror.test:/layer":             "mirror.test:80",
		"http://mirror.test:80/layer":           "mirror.test:80",
		"http://mirror.test:5000/layer":         "mirror.test:5000",
		"http://[::1]/layer":                    "[::1]:80",
		"http://docker.io/a%2Fb%20c?q=%2F&d#no": "docker.io:80",
		"http://a,b/layer":                      "a%2Cb:80",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := HostOf(u); got != want {
			t.Errorf("%s is at %s, want %s", address, got, want)
		}
	}
}
