// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// reuses are the ways in which a cached image is given by a proof, or none, while no registry says yes.
var reuses = map[string]struct {
	directives string
	fails      failure.Class
}{
	"IfNotPresent": {`policy = "IfNotPresent"`, failure.None},
	"Never":        {`policy = "Never"`, failure.None},
	"max_age":      {"policy = \"IfDigestChanged\"\nmax_age = \"2h\"", failure.None},
	"a fallback":   {`policy = "IfDigestChanged"`, failure.Unavailable},
}

// refuseInAnotherRequest has the registry refuse alice, in a request of another namespace, which ends her proof.
func (n *node) refuseInAnotherRequest(ctx context.Context, t *testing.T, e *Engine) {
	t.Helper()
	n.mu.Lock()
	n.checkFails = failure.Forbidden
	n.mu.Unlock()
	refused := n.request(nil)
	refused.Namespace, refused.PodNamespace, refused.Runtime = "b", "b", n
	if o, _ := e.Ensure(ctx, refused); o.Kind != Failed || len(n.record.Proofs(alice)) > 0 {
		t.Errorf("%s, and her proof has not ended", o.Kind)
	}
}
