// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
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
		"another host":   {purpose.Purpose{Kind: purpose.Fetch, Next: []string{"http://other.test"}}, false},
		"it is serving":  {purpose.Purpose{Kind: purpose.Fetch, Next: []string{"http://other.test"}, KeepHost: true}, true},
		"forced":         {purpose.Purpose{Kind: purpose.Fetch, Next: []string{"http://other.test"}, Force: true}, true},
		"itself follows": {purpose.Purpose{Kind: purpose.Fetch, Next: []string{key}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
				asked = true
				return answering(http.StatusOK)(req)
			}))
			c.Health.Force(key).Limited(time.Minute, "429")
			_, err := send(t.Context(), t, c.Registry(nil), test.p)
			if asked != test.asked || c.Health.Blocked(key) == test.asked {
				t.Errorf("asked %v, in trouble %v", asked, c.Health.Blocked(key))
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

// A permit that the caller has is used for its host and left to the caller; for
// another host, such as a redirect's target, there is a permit of its own.
func TestGuardUsesThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(answering(http.StatusNotFound))
		c.Health.Force(key).Failed(failure.Unreachable, "silent", true)
		time.Sleep(time.Minute)
		probe, open := c.Health.Admit(key)
		if open != nil {
			t.Fatal(open)
		}
		if _, err := send(t.Context(), t, c.Registry(nil), purpose.Purpose{Kind: purpose.Check, Permit: probe}); err != nil {
			t.Error(err)
		}
		if len(c.Health.States()) != 0 {
			t.Errorf("the answer to the probe does not count: %+v", c.Health.States())
		}

		other, _ := c.Health.Admit("http://other.test")
		c.Health.Force(key).Limited(time.Minute, "429")
		_, err := send(t.Context(), t, c.Registry(nil), purpose.Purpose{Kind: purpose.Check, Permit: other})
		if f := wantFault(t, err, failure.RateLimited); !f.ShortCircuited {
			t.Errorf("got %+v", f)
		}
	})
}
