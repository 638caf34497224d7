// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestHangingRegistry holds that verify_timeout bounds the whole check.
func TestHangingRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2m"`))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	faults := map[string]func() error{
		"hangs":    func() error { n.Registry.Hang(resolvertest.All); return nil },
		"swallows": func() error { return n.Registry.Swallow() },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			n := n.In(t)
			n.Must(fault())
			defer n.Restore()
			for _, policy := range []string{"IfDigestChanged", "Always"} {
				n.WriteHosts("registry.test", n.Server(n.Registry)+"# "+name+policy) // no fault before counts
				began := time.Now()
				mark := n.Mark()
				_, err := n.Pull(ref, node.Hint("policy", policy, "verify-timeout", "1s"))
				took := time.Since(began)
				nodetest.Want(t, policy+" fails", err != nil, policy == "Always")
				nodetest.Want(t, policy+": class", n.Decision(mark, ref).Class, "unreachable")
				if took < 500*time.Millisecond || took > 30*time.Second {
					t.Errorf("%s took %v, want 1s of the 2m that others have", policy, took)
				}
			}
		})
	}
}
