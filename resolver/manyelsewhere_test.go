// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// The hosts of the urls of all layers of an image are remembered by their names up to a bound. Beyond it a layer
// is one from a host without a name, and none from nowhere.
func TestHostsOfURLsOfAPullAreBounded(t *testing.T) {
	l := &fetchLog{}
	names := 0
	for i := range 2 * maxElsewhereOfPull / 200 {
		d := digest.FromString(fmt.Sprint(i))
		for j := range 200 {
			l.servedElsewhere(d, []string{fmt.Sprintf("h%d-%d.test", i, j)})
		}
		hosts := l.elsewhere(d)
		if len(hosts) == 0 {
			t.Fatalf("layer %d came from nowhere", i)
		}
		for _, h := range hosts {
			if h != redact.Untold {
				names++
			}
		}
	}
	if names != maxElsewhereOfPull {
		t.Errorf("%d names are remembered", names)
	}
}
