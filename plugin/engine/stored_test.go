// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
)

// An image that containerd would store under another digest than the registry's
// is not stored: nobody has proved anything about that one.
func TestStoredAsAnotherDigest(t *testing.T) {
	n := &node{remote: first, converts: &second}
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if err == nil || o.Kind != Failed || o.Reason != ReasonPull || n.record != nil {
		t.Errorf("%s (%s), %v; the record is %+v", o.Kind, o.Reason, err, n.record)
	}
}
