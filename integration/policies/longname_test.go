// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNameThatNoHostHas holds that a name of which a reference may be, but no host, asks nobody, and ends at once
// with an error that can be read.
func TestNameThatNoHostHas(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	_, err := n.Pull("registry.example.com:" + strings.Repeat("0", 200_000) + "443/app:1")
	if err == nil || !strings.Contains(err.Error(), "its registry has 200024 bytes, and no host has more than 300") || len(err.Error()) > 1000 {
		t.Errorf("%.1000v", err)
	}
}
