// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// Of the hosts of a download that goes on from pull to pull no more are remembered than have room in a label; the
// same ones, left out once more, make no more of them.
func TestHostsOfPendingDownloadsAreBounded(t *testing.T) {
	n := newNode(t, true)
	s := n.tracker.Load().contents
	d := digest.FromString("a layer")
	for range 3 {
		p := provenance.Provenance{Hosts: []string{"registry.test"}}
		for i := range 256 {
			p.Hosts = append(p.Hosts, fmt.Sprintf("10.0.%d.1:%s80", i, strings.Repeat("0", 50)))
		}
		s.add(n.ctx, d, p)
	}
	got := s.pendingOf(keyOf(n.ctx, d))
	if len(strings.Join(got.Hosts, ",")) > 512 || got.More+len(got.Hosts) != 257 || !slices.Contains(got.Hosts, "registry.test") {
		t.Errorf("%d hosts and %d more: %v", len(got.Hosts), got.More, got.Hosts)
	}
}
