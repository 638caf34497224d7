// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSpellingsOfARegistryInTrouble holds that a tenant who spells the name of a shared
// registry in another way, which its balancer does not know, keeps nobody from it: also where
// that spelling has a hosts.toml, by which it is asked so.
func TestSpellingsOfARegistryInTrouble(t *testing.T) {
	t.Parallel()
	for name, configured := range map[string]bool{"without a hosts.toml": false, "with one of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
			n.Push("app:1", nodetest.Image(0))
			other := n.KnownByItsName(n.Registry, http.StatusServiceUnavailable, configured)
			ref := n.Registry.Host() + "/app:1"
			n.MustPull(ref)
			for i := range int64(3) {
				if _, err := n.Pull(other + "/evil/x:1"); err == nil || configured != strings.Contains(err.Error(), "503") {
					t.Errorf("the tenant got %v", err)
				}
				d := n.Push("app:1", nodetest.Image(i+1))
				mark := n.Mark()
				n.MustPull(ref)
				nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
				nodetest.Want(t, "target", n.Target(ref), d)
				time.Sleep(time.Second) // a verdict of this age does not count by itself
			}
		})
	}
}
