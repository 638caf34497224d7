// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "testing"

// Docker Hub's one name is docker.io, whose default address is registry-1.docker.io: a refusal
// by that spelling, which has a directory of its own, ends nothing that was given by docker.io.
func TestRefusalOfHubsAddressAsASpelling(t *testing.T) {
	const address = "registry-1.docker.io"
	no := Refusal{Host: address, Origin: true, Spelled: address}
	if no.Ends(Anonymous, Proof{At: noon, By: address}, "docker.io/library/nginx:1") {
		t.Error("what docker.io gave to everybody has ended")
	}
	if !no.Ends(Anonymous, Proof{At: noon, By: address}, address+"/library/nginx:1") {
		t.Error("what that spelling gave to everybody is left")
	}
}
