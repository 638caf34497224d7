// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package purpose

import (
	"context"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

func TestCanFailFast(t *testing.T) {
	breakers := health.New()
	defer breakers.Close()
	view := breakers.View(nil)
	blocked, free := health.KeyOf("http", "blocked"), health.KeyOf("http", "free")
	view.Failed(blocked, nil, health.Failure{Class: failure.Unreachable, Timeout: true})
	fallback := failure.SetOf(failure.Unreachable)
	for name, test := range map[string]struct {
		p           Purpose
		alternative bool
		ready       bool // the same, by what is known of it
		failFast    bool // after a failure of class unreachable
	}{
		"nobody's":                     {Purpose{Next: []health.Key{free}, Fallback: fallback}, false, false, false},
		"a check, others follow":       {Purpose{Kind: Check}, true, true, true},
		"a check of the last host":     {Purpose{Kind: Check, Last: true}, false, false, false},
		"with a fallback":              {Purpose{Kind: Check, Last: true, Fallback: fallback}, false, false, true},
		"with another fallback":        {Purpose{Kind: Check, Last: true, Fallback: failure.SetOf(failure.NotFound)}, false, false, false},
		"one passed over, others too":  {Purpose{Kind: Check, Force: true}, true, false, false},
		"the same, with a fallback":    {Purpose{Kind: Check, Force: true, Fallback: fallback}, true, false, true},
		"a fetch, another host":        {Purpose{Kind: Fetch, Next: []health.Key{blocked, free}}, true, true, true},
		"a fetch, others in trouble":   {Purpose{Kind: Fetch, Next: []health.Key{blocked}}, true, false, false},
		"a fetch from the last host":   {Purpose{Kind: Fetch, Last: true}, false, false, false},
		"a fetch when nothing is left": {Purpose{Kind: Fetch, Next: []health.Key{free}, Force: true}, true, true, false},
		"a fetch that goes on":         {Purpose{Kind: Fetch, Next: []health.Key{free}, KeepHost: true}, true, true, false},
		"a fetch that has left all":    {Purpose{Kind: Fetch, Next: []health.Key{free}, Force: true, Patient: true}, true, false, false},
		"a fetch that dialed before":   {Purpose{Kind: Fetch, Next: []health.Key{blocked}, Dialed: true, Force: true}, false, false, false},
		"one that dialed, with others": {Purpose{Kind: Fetch, Next: []health.Key{free}, Dialed: true, Force: true}, true, true, false},
		"a fallback is no fetch's":     {Purpose{Kind: Fetch, Last: true, Fallback: fallback}, false, false, false},
	} {
		test.p.Health = view
		p := Of(With(t.Context(), test.p))
		if got := p.HasAlternative(); got != test.alternative {
			t.Errorf("%s: has an alternative: %v", name, got)
		}
		if got := p.HasReadyAlternative(); got != test.ready {
			t.Errorf("%s: has one that is ready: %v", name, got)
		}
		if got := p.CanFailFast(failure.Unreachable); got != test.failFast {
			t.Errorf("%s: can fail fast: %v", name, got)
		}
	}
	if p := Of(t.Context()); p.Kind != Other || p.HasAlternative() {
		t.Errorf("got %+v of a context that says nothing", p)
	}
}

// The last caller's deadline counts, and none at all if one of them has none.
func TestDeadline(t *testing.T) {
	in := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	minute, hour := in(time.Minute), in(time.Hour)
	want := func(d *Deadline, ctx context.Context) {
		t.Helper()
		at, bounded := d.At()
		if wantAt, wantBounded := ctx.Deadline(); !at.Equal(wantAt) || bounded != wantBounded {
			t.Errorf("got %v, %v, want %v", at, bounded, wantAt)
		}
	}
	d := NewDeadline(minute)
	want(d, minute)
	d.Join(hour)
	want(d, hour)
	d.Join(minute)
	want(d, hour)
	d.Join(t.Context())
	want(d, t.Context())
	d.Join(minute)
	want(d, t.Context())
	d = NewDeadline(t.Context())
	d.Join(minute)
	want(d, t.Context())
}
