// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// wantNotBlamed holds that an error is not the registry's, but tells of the host and how it failed.
func wantNotBlamed(t *testing.T, err error, reason Reason, class failure.Class) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != reason || failed.Class != failure.None {
		t.Errorf("%s: %#v", class, err)
		return
	}
	if text := err.Error(); !strings.Contains(text, "; check: "+string(class)+": host registry.test: ") {
		t.Errorf("%s: %s", class, text)
	}
}

// A fallback that an image verifier refuses is no failure of the registry, whatever that did.
// It is told of all the same, as the hosts are that were tried.
func TestVerifierOfAFallbackIsToBlame(t *testing.T) {
	for _, class := range failure.All() {
		rules := []string{`policy = "IfDigestChanged"`, `access = "Any"`, allClasses}
		n := &node{record: cachedImage(second, now.Add(-time.Minute)), checkFails: class}
		e := n.engine(rule(rules...))
		e.countVerifiers(true)
		compareExplained(t, n, e, n.request(nil))
		o := n.last(t)
		wantNotBlamed(t, o.Err, ReasonVerifier, class)
		if o.Class != class {
			t.Errorf("%s: the outcome has the class %q", class, o.Class)
		}
		synctest.Test(t, func(t *testing.T) {
			e := n.engine(rule(append([]string{observing}, rules...)...))
			e.countVerifiers(true)
			if seen := n.ensureObserved(t, e, n.request(nil)); seen.Err.Error() != o.Err.Error() {
				t.Errorf("%s: observed %v, and enforced %v", class, seen.Err, o.Err)
			}
		})
	}
}
