// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
)

// A pull of an older image begins anew where containerd's own has given the tag to a newer one, of which the check
// beside it was told.
func TestOlderPullBesideAnObservedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, now)}
		third := image("third")
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\nmode = \"Observe\"\npolicy = \"IfDigestChanged\"\n" + rule(`policy = "IfDigestChanged"`))
		n.onPull = func() {
			if n.pulls > 1 {
				return
			}
			n.push(third)
			other := n.request(nil)
			other.Namespace, other.PodNamespace = "b", "b"
			if _, err := e.Ensure(t.Context(), other); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Digest != third.Digest || n.record.Target.Digest != third.Digest {
			t.Errorf("%s (%s) of %s, %v; the tag is %s", o.Kind, o.Reason, o.Digest, err, n.record.Target.Digest)
		}
	})
}
