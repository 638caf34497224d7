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
