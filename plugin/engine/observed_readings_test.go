// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// A check that reads the manifest of an image that is open to all, whatever the node had before, is a
// proof for everybody under Observe too.
func TestObservedReadings(t *testing.T) {
	for what, n := range map[string]*node{
		"absent":    {remote: second},
		"changed":   {remote: second, record: cachedImage(first, now.Add(-time.Hour))},
		"unchanged": {remote: second, record: cachedImage(second, now.Add(-time.Hour))}, // holds
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n.anonymous = true
				n.ensureObserved(t, n.engine(rule(observing, readManifest)), n.request(nil))
				if n.verified[name].Read.At.IsZero() {
					t.Errorf("the manifest counts as unread: %+v", n.verified[name])
				}
				if !slices.Contains(n.proved, store.Anonymous) {
					t.Errorf("the manifest was read without credentials, and %v have proved access", n.proved)
				}
			})
		})
	}
}
