// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A host in trouble is skipped when there is something else to use, and asked
// when there is not. Its answer closes the breaker.
func TestGuardSkips(t *testing.T) {
	for name, test := range map[string]struct {
		p     purpose.Purpose
		asked bool
	}{
		"others follow":  {purpose.Purpose{Kind: purpose.Check}, false},
		"a fallback":     {purpose.Purpose{Kind: purpose.Check, Last: true, Fallback: failure.SetOf(failure.RateLimited)}, false},
		"nothing else":   {purpose.Purpose{Kind: purpose.Check, Last: true}, true},
		"not ours":       {purpose.Purpose{}, true},
		"another host":   {purpose.Purpose{Kind: purpose.Fetch, Next: []health.Key{health.KeyOf("http", "other.test")}}, false},
		"it is serving":  {purpose.Purpose{Kind: purpose.Fetch, Next: []health.Key{health.KeyOf("http", "other.test")}, KeepHost: true}, true},
		"forced":         {purpose.Purpose{Kind: purpose.Fetch, Next: []health.Key{health.KeyOf("http", "other.test")}, Force: true}, true},
		"itself follows": {purpose.Purpose{Kind: purpose.Fetch, Next: []health.Key{key}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
				asked = true
				return answering(http.StatusOK)(req)
			}))
			breakers := health.New()
			defer breakers.Close()
			test.p.Health = breakers.View(nil)
			test.p.Health.Failed(key, nil, health.Failure{Class: failure.RateLimited, RetryAfter: time.Minute})
			_, err := send(t.Context(), t, c.Registry(nil), test.p)
			if open := test.p.Health.Blocked(key, 0); asked != test.asked || open == test.asked && test.p.Kind != purpose.Other {
				t.Errorf("asked %v, in trouble %v", asked, open)
			}
			if test.asked {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if f := wantFault(t, err, failure.RateLimited); !f.ShortCircuited || f.Temporary || !strings.Contains(f.Error(), "not asked before") {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// A host that the caller has decided to ask is asked; another, such as a redirect's
// target, is looked at by itself.
func TestGuardLeavesDecisionsAlone(t *testing.T) {
	c := config(answering(http.StatusNotFound))
	breakers := health.New()
	defer breakers.Close()
	view := breakers.View(nil)
	limited := health.Failure{Class: failure.RateLimited, RetryAfter: time.Minute}
	view.Failed(key, nil, limited)
	p := purpose.Purpose{Kind: purpose.Check, Health: view, Admitted: key}
	if _, err := send(t.Context(), t, c.Registry(nil), p); err != nil || view.Blocked(key, 0) {
		t.Errorf("got %v, in trouble: %v", err, view.Blocked(key, 0))
	}

	c.Key = health.KeyOf("http", "elsewhere.test") // which led here
	p.Admitted = c.Key
	here := health.Key{Host: key.Host, For: c.Key.Host}
	view.Failed(here, nil, limited)
	_, err := send(t.Context(), t, c.Registry(nil), p)
	if f := wantFault(t, err, failure.RateLimited); !f.ShortCircuited {
		t.Errorf("got %+v", f)
	}
}
