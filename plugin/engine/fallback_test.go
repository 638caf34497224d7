// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// The mark of an image that is used since a check has failed tells since when, and no earlier than
// another request was told that it is the registry's, which has taken an earlier mark away.
func TestStaleSinceIsAfterAnothersCheck(t *testing.T) {
	n := &node{record: cachedImage(first, now.Add(-time.Hour)), checkFails: failure.Unreachable}
	n.record.Stale = store.Stale{Since: now.Add(-time.Minute), Reason: store.StaleReason(failure.Unreachable)}
	n.onCheck = func() { n.record = cachedImage(first, now.Add(-time.Second)) }
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if err != nil || o.Kind != UsedCached || !n.stale[name].Since.Equal(now) {
		t.Errorf("%s, %v: stale since %s", o.Kind, err, n.stale[name].Since)
	}
}
