// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Where the node's image decides, no registry is asked.
func TestInspectDecidesWhetherToAsk(t *testing.T) {
	for directive, kind := range map[string]Kind{
		`max_age = "1h"`:                         Fresh,
		"policy = \"IfNotPresent\"":              Present,
		"policy = \"Never\"":                     Present,
		"policy = \"Always\"\nmax_age = \"24h\"": Fresh,
	} {
		n := &node{remote: second, record: cachedImage(first, now)}
		o, err := n.engine(rule(directive)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != kind || n.checks != 0 {
			t.Errorf("%s: %s after %d checks, %v", directive, o.Kind, n.checks, err)
		}
	}
}

// The registry client is told the cached digest, and the failures for which the
// cached image would do, before anything is asked.
func TestInspectTellsTheRegistryClient(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, now)}
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if err != nil || o.Kind != Unchanged || o.Before != first.Digest || n.checks != 1 {
		t.Errorf("%+v after %d checks, %v", o, n.checks, err)
	}
	want := failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited, failure.NotFound)
	if n.query.Known != first.Digest || n.query.Fallback != want {
		t.Errorf("known %s, fallback %v", n.query.Known, n.query.Fallback)
	}
	n = &node{remote: first}
	if _, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil)); err != nil {
		t.Fatal(err)
	}
	if n.query.Known != "" || !n.query.Fallback.Empty() {
		t.Errorf("without an image: known %s, fallback %v", n.query.Known, n.query.Fallback)
	}
}

// A check is of no use when the node cannot be read: nobody is asked.
func TestFailedInspectionAsksNobody(t *testing.T) {
	n := &node{imageIDErr: errTest, hangs: true}
	var failed *Error
	_, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if !errors.Is(err, errTest) || !errors.As(err, &failed) || failed.Reason != ReasonInternal || failed.Class != failure.None || n.checks != 0 {
		t.Errorf("%v after %d checks", err, n.checks)
	}
}

// CRI hears of a record a little later than a pull moves it. A request that comes in
// between waits for that, but not for ever.
func TestInspectWaitsForCRI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lag, want := range map[int]Kind{3: UsedCached, -1: Failed} {
			n := &node{record: cachedImage(first, now), lag: lag, checkFails: failure.Unreachable}
			begun := time.Now()
			o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
			if o.Kind != want || time.Since(begun) > time.Second {
				t.Errorf("%d looks late: %s (%s) after %v, %v", lag, o.Kind, o.Reason, time.Since(begun), err)
			}
		}
	})
}
