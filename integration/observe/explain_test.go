// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestExitCodeOfAFallbackThatIsNone holds that explain --exit-code says 0 only where the pod gets an image:
// under mode = "Observe" containerd's own pull decides, and knows no cached image.
func TestExitCodeOfAFallbackThatIsNone(t *testing.T) {
	t.Parallel()
	for policy, outcome := range map[string]string{"IfDigestChanged": "UsedCached", "IfNotPresent": "Present"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t)
			ref := nodetest.Named("app:1")
			n.Push("app:1", nodetest.Image(1))
			mode(n, "Enforce", policy)
			mustEnforce(n, ref, "Pulled", "absent")
			mode(n, "Observe", policy)
			n.Registry.Refuse()
			r := n.Command("explain", ref, "--ask", "--exit-code")
			got, err := mustFailObserved(n, ref)
			if got.Outcome != outcome || err == nil {
				t.Fatalf("told %+v, %v", got, err)
			}
			if r.Code != 3 {
				t.Errorf("exit %d, and the pod gets no image:\n%s", r.Code, r.Stdout)
			}
		})
	}
}
